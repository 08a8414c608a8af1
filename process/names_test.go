package process_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/process"
)

// A step has a name that stands for it alone, wherever it is written. Register says what is wrong with another one.
func TestNamesOfSteps(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"pack the bag": "", "1": "", "2nd": "", "ä": "", "a.b": "", strings.Repeat("x", 100): "",
		"": "1 to 100 bytes", strings.Repeat("x", 101): "1 to 100 bytes", "\xff": "in UTF-8", "a\nb": "control characters", "\x1b[31mred": "control characters", "a\u0085": "control characters",
		" a": "no space at its ends", "a\t": "control characters", "a ": "no space at its ends",
		"a/b": "none of / ~ #", "a~1": "none of / ~ #", "a#": "none of / ~ #", "00": "the path of a step", "02.01": "the path of a step", "100": "the path of a step",
	} {
		plan := func(p *process.Plan[note]) {
			process.Do(p, name, func(context.Context, note) (string, error) { return "", nil }, nil)
		}
		switch err := process.Check(process.Version(1, plan), process.Version(2, plan)); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}

// A renaming is of steps that there are, in an upgrade and in its check.
func TestRenamedSteps(t *testing.T) {
	t.Parallel()
	plan := func(names ...string) func(*process.Plan[note]) {
		return func(p *process.Plan[note]) {
			for _, name := range names {
				process.Wait(p, name, note.goOn)
			}
		}
	}
	one, two := process.Version(1, plan("pay", "ship")), process.Version(2, plan("charge", "ship"))
	same := func(n note) note { return n }
	for _, c := range []struct{ from, to, want string }{
		{"pay", "charge", ""},
		{"pai", "charge", `Renamed("pai", "charge"): version 1 has no step "pai"`},
		{"pay", "charges", `Renamed("pay", "charges"): version 2 has no step "charges"`},
	} {
		renamed := process.Renamed(c.from, c.to)
		for what, err := range map[string]error{
			"Check":    process.Check(one, two, renamed),
			"Register": registered(t, one, two, process.Upgrade(1, 2, same, renamed)),
		} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s with %s and %s: got %v, want %q", what, c.from, c.to, err, c.want)
			}
		}
	}
}

// registered is what Register says of a plan.
func registered(t *testing.T, parts ...process.Part) error {
	t.Helper()
	w := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, process.Route(planName))
	return process.Register(w.Registry, planName, parts...)
}
