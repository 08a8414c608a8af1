package applied

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/poison"
)

// Where no record can tell, the verdict is not certain and says why. The store isn't asked.
func TestVerdictsWithoutARecord(t *testing.T) {
	t.Parallel()
	desk := &act.Desk{Known: &known.Programs{Published: []catalog.Description{{Queues: []catalog.Queue{
		{Name: "mails", Handlers: []catalog.Handler{{Kind: "mail", Name: "send mails"}}},
	}}}}}
	for _, c := range []struct {
		name         string
		entry        poison.Entry
		kind         channel.Kind
		applied, yes bool
		why          string
	}{
		{"a repeat with other content", poison.Entry{Queue: "mails", Reason: handlers.ReasonContentDiffers}, "mail", true, true, "other content was applied"},
		{"a kind that nobody handles", poison.Entry{Queue: "mails"}, "letter", false, false, "no program says how it handles letter from queue mails"},
		{"a queue that nobody knows", poison.Entry{Queue: "letters"}, "mail", false, false, "no program says how it handles mail from queue letters"},
		{"a plain reaction", poison.Entry{Queue: "mails"}, "mail", false, false, "send mails is a reaction that leaves no record"},
	} {
		got, err := Was(t.Context(), desk, c.entry, &channel.Envelope{ID: "a", Kind: c.kind})
		if err != nil || got.Applied != c.applied || got.Known != c.yes || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: got %+v, %v; want applied %v, known %v, %q", c.name, got, err, c.applied, c.yes, c.why)
		}
	}
}

// A message is perhaps forgotten after 30 days, by its ID's time or by the time that it counts from.
func TestMessagesAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		e    channel.Envelope
		want bool
	}{
		"new":                          {channel.Envelope{ID: channel.IDAt(now)}, false},
		"29 days old":                  {channel.Envelope{ID: channel.IDAt(now.Add(-29 * day))}, false},
		"31 days old":                  {channel.Envelope{ID: channel.IDAt(now.Add(-31 * day))}, true},
		"old, and counts from now":     {channel.Envelope{ID: "o17", Since: now}, false},
		"counts from long ago":         {channel.Envelope{ID: "o17", Since: now.Add(-31 * day)}, true},
		"of which nobody knows a time": {channel.Envelope{ID: "o17"}, false},
	} {
		if got := MayBeForgotten(&c.e); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
