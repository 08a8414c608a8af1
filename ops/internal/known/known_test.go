package known

import (
	"testing"

	"github.com/millrace-go/millrace/ops/catalog"
)

// Keys take turns in queues whose handlers say so, and perhaps in queues of which nobody has told.
func TestMayTakeTurns(t *testing.T) {
	t.Parallel()
	k := Programs{Published: []catalog.Description{{Queues: []catalog.Queue{
		{Name: "mails", Handlers: []catalog.Handler{{Kind: "a"}}},
		{Name: "sms", Handlers: []catalog.Handler{{Kind: "a"}, {Kind: "b", Turns: true}}},
	}}}}
	for queue, want := range map[string]bool{"mails": false, "sms": true, "others": true} {
		if got := k.MayTakeTurns(queue); got != want {
			t.Errorf("%s: got %v, want %v", queue, got, want)
		}
	}
}
