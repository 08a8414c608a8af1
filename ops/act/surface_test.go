package act_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
)

// A text names the fields of its request by the words of the surface. Command lines, other flags and what somebody has
// typed stay as they are.
func TestTextsNameFieldsAsTheSurfaceDoes(t *testing.T) {
	t.Parallel()
	r := new(bell).ring().Request()
	page := act.Surface{Command: "millrace", Word: func(f act.Field) string { return "«" + f.Name + "»" }, Before: func(f act.Field) string { return f.Name }}
	for text, want := range map[string]string{
		"add --why TEXT: it tells others":                        "add «why»: it tells others",
		"want --dry-run, not --nope":                             "want «dry-run», not --nope",
		"millrace bells ring X --why TEXT tells, and --why, too": "millrace bells ring X --why TEXT tells, and «why», too",
		`no bell "--why"`:                                        `no bell "--why"`,
		`go back by "bells ring --why x" with --why TEXT`:        `go back by "bells ring --why x" with «why»`,
		"millrace bells ring 'no: --why' --why TEXT rings":       "millrace bells ring 'no: --why' --why TEXT rings",
		"no flag": "no flag",
	} {
		worldtest.Want(t, text, page.Text(r, text), want)
	}
	line := page
	line.Values = true
	worldtest.Want(t, "with values", line.Text(r, "add --why TEXT, please"), "add «why» TEXT, please")

	err := page.Error(r, act.UsageOf("why", "it says nothing; see --dry-run"))
	worldtest.Want(t, "an error", err.Error(), "why: it says nothing; see «dry-run»")
	if bad := (*act.UsageError)(nil); !errors.As(err, &bad) {
		t.Errorf("got %T", err)
	}
	shown := act.New(act.Act{Noun: "bells", Verb: "show", Role: act.Viewer, Reveals: true, About: "show a bell"},
		func(*bellInput) []act.Field { return nil }, func(context.Context, *act.Call, *bellInput) error { return nil }).Request()
	if err := shown.Field("reveal").Set("true"); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "content", page.Text(shown, "the guest says: pass --why"), "the guest says: pass --why")
	worldtest.Want(t, "an error with content", page.Error(shown, errors.New("the guest says: pass --why")).Error(), "the guest says: pass --why")
	worldtest.Want(t, "an error before", page.Error(shown, act.Usage("add --why TEXT")).Error(), "add «why»")
	plain := errors.New("plain")
	if got := page.Error(r, plain); got != plain || page.Error(r, nil) != nil {
		t.Errorf("got %v", got)
	}
}

// A moment in UTC is called so, as on all pages.
func TestAMomentInUTCSaysSo(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for zone, want := range map[*time.Location]string{time.UTC: "2026-01-02 03:04:05 UTC", time.FixedZone("CET", 3600): "2026-01-02 04:04:05 +0100"} {
		if got := act.ClockIn(at.In(zone)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
