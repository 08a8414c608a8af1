package millracetest_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/millracetest"
)

const failingEnv = "MILLRACETEST_FAILING"

// failing are tests that must fail. A failing test can't run within a passing one, so each has a process of its own.
func failing() map[string]func(t *testing.T) {
	one := func(test func(*testing.T, *millracetest.App)) func(*testing.T) {
		return func(t *testing.T) { millracetest.Run(t, program(&mails{}), test) }
	}
	many := func(fold func(order, place) (order, []channel.Message, error), after func(*testing.T, *millracetest.Sim)) func(*testing.T) {
		return func(t *testing.T) {
			millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
				sim.Start(millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
					handlers.Decide(h, orders(h.Channels()), func(c place) string { return c.Order }, fold, placed{})
					return nil
				}})
				sim.Send(place{"a", 1})
				after(t, sim)
			})
		}
	}
	clock := func(o order, _ place) (order, []channel.Message, error) {
		o.Reminded = time.Now()
		return o, nil, nil
	}
	pure := func(o order, _ place) (order, []channel.Message, error) { return o, nil, nil }
	return map[string]func(t *testing.T){
		"poison": one(func(t *testing.T, app *millracetest.App) {
			app.Send(place{"a", -1})
			app.Drain()
		}),
		"stopped": one(func(t *testing.T, app *millracetest.App) {
			app.Stop()
			app.Send(place{"a", 1})
			app.Drain()
		}),
		"endless": func(t *testing.T) {
			m := &mails{before: func() error { return handlers.Later(time.Minute, "not today") }}
			millracetest.Run(t, program(m), func(t *testing.T, app *millracetest.App) {
				app.Send(place{"a", 1})
				app.Drain()
			})
		},
		"refused":   one(func(t *testing.T, app *millracetest.App) { app.Send(refusedMessage{}) }),
		"clock":     many(clock, func(*testing.T, *millracetest.Sim) {}),
		"one error": many(pure, func(t *testing.T, sim *millracetest.Sim) { sim.Tell("my own line"); t.Error("my own check") }),
		"an end":    many(pure, func(t *testing.T, sim *millracetest.Sim) { t.Fatal("my own end") }),
		"no start": func(t *testing.T) {
			millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) { sim.Settle() }, 7)
		},
		"wavering": wavering, "never started": neverStarted, "wrong agent": wrongAgent,
		"short file": wrongFile(8, 7), "long file": wrongFile(8, 9), "no file": wrongFile(8, 0),
		"in order": inOrder, "in place": inPlace, "too few": tooFew,
		"sound": many(pure, func(*testing.T, *millracetest.Sim) {}),
		"faulty": func(t *testing.T) {
			faulty := millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
				handlers.React(h, "nowhere", func(context.Context, placed) error { return nil })
				return nil
			}}
			millracetest.Run(t, faulty, func(*testing.T, *millracetest.App) {})
		},
	}
}

type refusedMessage struct {
	X int `json:"x"`
}

func (refusedMessage) Kind() channel.Kind { return "kit.refused.v1" }

// TestFailing is one of the tests that must fail, in a process of its own.
func TestFailing(t *testing.T) {
	if f := failing()[os.Getenv(failingEnv)]; f != nil {
		f(t)
	}
}

// run runs a test that must fail, and returns what it says.
func run(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFailing$", "-test.v")
	cmd.Env = append(os.Environ(), failingEnv+"="+name, "GORACE=atexit_sleep_ms=0", "MILLRACE_SEED=", "MILLRACE_SEEDS=")
	for _, x := range env {
		if x == "short" {
			cmd.Args = append(cmd.Args, "-test.short")
			continue
		}
		cmd.Env = append(cmd.Env, x)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A test of a program that fails says what is wrong.
func TestTextsOfFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ says []string }{
		"poison":    {[]string{"the test didn't expect this, or it would have called Poison", "queue orders: kit.place.v1", "(no such seats)", `"seats":-1`}},
		"stopped":   {[]string{"the worker is stopped, and messages are left: map[orders:1]"}},
		"endless":   {[]string{"Drain: after 24h0m0s messages are still left: map[mails:1]"}},
		"refused":   {[]string{"no route for kind kit.refused.v1"}},
		"faulty":    {[]string{"no route takes kit.placed.v1 to queue nowhere"}},
		"clock":     {[]string{"pure decisions: orders \"a\": decided again", `-   "reminded": "2001-`, `+   "reminded": "2000-`, "history of seed ", "test sends kit.place.v1"}},
		"one error": {[]string{"my own check", "history of seed ", "my own line", "go test -run '^TestFailing$'"}},
		"an end":    {[]string{"my own end", "history of seed", "MILLRACE_SEED="}},
		"no start":  {[]string{"call Start first", "history of seed 7"}},

		"wavering":      {[]string{"bags red (- without faults, + with this one)", `-   "label": "`, `+   "label": "`, "the fault: ", ", number 1; the history:", "commit blob bags/red"}},
		"never started": {[]string{"start was not called"}},
		"wrong agent":   {[]string{`the agent "label" is a func(millracetest_test.bag) string; want a func(context.Context, millracetest_test.bag) (string, error)`, `no step takes the agent "no such"`}},
		"short file":    {[]string{"the content has 7 bytes, and that isn't the Size"}},
		"long file":     {[]string{"the content has 9 bytes, and that isn't the Size"}},
		"no file":       {[]string{"the content has 0 bytes, and that isn't the Size"}},
		"in order":      {[]string{"depends on the order of the results", `+   "b"`}},
		"in place":      {[]string{"has changed the state that it was given", `+   "a": 1`}},
		"too few":       {[]string{"1 results have no order; want at least 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := run(t, name)
			if err == nil {
				t.Error("the test passes; it must fail")
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("got\n%s\nwant a line with %q", said, want)
				}
			}
		})
	}
}

// A failing seed is printed, and runs again alone by MILLRACE_SEED. MILLRACE_SEEDS says how many run.
func TestSeeds(t *testing.T) {
	t.Parallel()
	said, err := run(t, "clock")
	again := regexp.MustCompile(`MILLRACE_SEED=\d+`).FindString(said)
	if err == nil || again == "" {
		t.Fatalf("got %v and\n%s\nwant a seed", err, said)
	}
	_, seed, _ := strings.Cut(again, "=")
	said, err = run(t, "clock", again)
	for _, want := range []string{"--- FAIL: TestFailing/seed/" + seed, "history of seed " + seed, "pure decisions"} {
		if err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: got %v and\n%s\nwant %q", again, err, said, want)
		}
	}
	if n := strings.Count(said, "--- FAIL: TestFailing/seed/"); n != 1 {
		t.Errorf("%s: %d seeds ran, want one", again, n)
	}
	said, err = run(t, "sound", "MILLRACE_SEED="+seed)
	if err != nil || !strings.Contains(said, "history of seed "+seed) {
		t.Errorf("a sound seed alone: got %v and\n%s\nwant its history", err, said)
	}
	ordinarily := 12
	if worldtest.RaceDetector {
		ordinarily = 3
	}
	for env, want := range map[string]int{"MILLRACE_SEEDS=5": 5, "MILLRACE_SEEDS=": ordinarily, "short": 3} {
		said, err := run(t, "sound", env)
		if n := strings.Count(said, "--- PASS: TestFailing/seed/"); err != nil || n != want {
			t.Errorf("%q: %d seeds ran (%v), want %d", env, n, err, want)
		}
	}
	if said, err := run(t, "sound", "MILLRACE_SEED=x"); err == nil || !strings.Contains(said, "MILLRACE_SEED in the environment") {
		t.Errorf("no number: got %v and\n%s", err, said)
	}
}
