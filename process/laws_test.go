package process_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

const day = 24 * time.Hour

// Law 1. The same start again is once, and another input under the ID is refused: also when the instance has ended,
// when its retention is over and only its tombstone is left, and for 30 days after that.
func TestOneInstanceOneDocument(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a") }, func(l *lab) {
		ctx := l.t.Context()
		other := note{Did: []string{"other"}}
		again := func(when string, poisoned int) {
			l.t.Helper()
			l.start("i")
			l.wantJournal("")
			l.ok(l.notes.Start(ctx, "i", other))
			l.app.Drain()
			l.wantJournal("")
			if err := l.notes.StartNew(ctx, "i", note{Did: []string{}}); err != nil {
				l.t.Errorf("%s: the same start: got %v, want that it is known", when, err)
			}
			if err := l.notes.StartNew(ctx, "i", other); !errors.Is(err, process.ErrStarted) {
				l.t.Errorf("%s: another start: got %v, want ErrStarted", when, err)
			}
			all := l.app.Poison()
			if len(all) != poisoned || all[0].Reason != "started with another input" {
				l.t.Errorf("%s: got %d poisoned messages, want %d: %+v", when, len(all), poisoned, all)
			}
		}
		l.start("i")
		l.wantJournal("a")
		again("ended", 1)
		l.want("i", process.Completed, "a")

		l.pause(30*day + time.Hour)
		if s := l.get("i"); s.Status != process.Completed || s.State.Did != nil || s.Ended.IsZero() {
			l.t.Errorf("after its retention: got %+v, want only that it has ended well", s)
		}
		again("a tombstone", 2)

		l.pause(29 * day)
		again("a tombstone of 29 days", 3)

		l.pause(day)
		if _, err := l.notes.Get(ctx, "i"); !errors.Is(err, storage.ErrNotFound) {
			l.t.Errorf("after 30 days more: got %v, want that it is not known", err)
		}
		l.start("i")
		l.wantJournal("a")
		l.want("i", process.Completed, "a")
	})
}

// Law 2. A panic in a function of the plan makes the instance stuck at that step, with the result kept, and so does
// runtime.Goexit. When the program is mended, a retry goes on from there, and the agent is not asked again.
func TestPanicMakesStuck(t *testing.T) {
	broken := map[string]func(c *crew, p *process.Plan[note], may func()){
		"then of Do": func(c *crew, p *process.Plan[note], may func()) {
			process.Do(p, "x", func(ctx context.Context, _ note) (string, error) { return c.work(ctx, "x") },
				func(n note, s string) note { may(); return n.add(s) })
		},
		"Then": func(_ *crew, p *process.Plan[note], may func()) {
			process.Then(p, "x", func(n note) note { may(); return n.add("x") })
		},
		"condition": func(c *crew, p *process.Plan[note], may func()) {
			process.If(p, "x", func(note) bool { may(); return true }, func(p *process.Plan[note]) { c.do(p, "yes") }, nil)
		},
		"until": func(_ *crew, p *process.Plan[note], may func()) {
			process.SleepUntil(p, "x", func(note) time.Time { may(); return time.Time{} })
		},
		"items": func(c *crew, p *process.Plan[note], may func()) {
			process.Each(p, "x", func(note) []string { may(); return []string{"i"} },
				func(ctx context.Context, i string) (string, error) { return c.work(ctx, i) }, note.add)
		},
		"gather": func(c *crew, p *process.Plan[note], may func()) {
			process.Each(p, "x", func(note) []string { return []string{"i", "j"} },
				func(ctx context.Context, i string) (string, error) { return c.work(ctx, i) },
				func(n note, s string) note { may(); return n.add(s) })
		},
		"state of Sub": func(c *crew, p *process.Plan[note], may func()) {
			process.Child(p, "x", func(n note) note { may(); return n }, func(p *process.Plan[note]) { c.do(p, "sub") },
				func(_, sub note) note { return sub })
		},
		"state of Split": func(c *crew, p *process.Plan[note], may func()) {
			process.Split(p, "x", func(note) []string { return []string{"i"} }, func(string) note { may(); return note{Did: []string{}} },
				func(p *process.Plan[note]) { c.do(p, "part") }, func(n, _ note) note { return n.add("part") })
		},
		"then of Sub": func(c *crew, p *process.Plan[note], may func()) {
			process.Child(p, "x", func(n note) note { return n }, func(p *process.Plan[note]) { c.do(p, "sub") },
				func(_, sub note) note { may(); return sub })
		},
		"then of Wait": func(_ *crew, p *process.Plan[note], may func()) {
			process.Wait(p, "x", func(n note, g goOn) note { may(); return n.goOn(g) })
		},
	}
	journal := map[string]string{"then of Do": "x", "condition": "yes", "items": "i", "gather": "i, j", "state of Sub": "sub", "state of Split": "part", "then of Sub": "sub"}
	t.Parallel()
	stuckBy(t, "in strange bytes", "x", "oh", broken["then of Do"], func() { panic("oh \xff") })
	for name, add := range broken {
		stuckBy(t, name, journal[name], "oh", add, func() { panic("oh") })
		stuckBy(t, name+" exits", journal[name], "Goexit", add, runtime.Goexit)
	}
}

// stuckBy tests a function of a plan that doesn't return, and then does.
func stuckBy(t *testing.T, name, journal, says string, add func(c *crew, p *process.Plan[note], may func()), fail func()) {
	t.Run(name, func(t *testing.T) {
		each(t, func(c *crew, p *process.Plan[note]) {
			add(c, p, func() {
				if !c.sound.Load() {
					fail()
				}
			})
			c.do(p, "last")
		}, func(l *lab) {
			l.start("i")
			l.signal("i", "ada")
			l.app.Advance(2 * time.Hour) // no deadline ends it
			s := l.get("i")
			if s.Status != process.Stuck || len(s.WaitsFor) != 1 || s.WaitsFor[0] != "x" {
				l.t.Fatalf("got %s, waits for %q; want stuck at x\n%s", s.Status, s.WaitsFor, l.timeline("i"))
			}
			if !strings.Contains(l.timeline("i"), says) {
				l.t.Errorf("the step doesn't say why:\n%s", l.timeline("i"))
			}
			l.sound.Store(true)
			l.asked(l.operator("ada", "mended").Retry(l.t.Context(), "i", "01"))
			l.app.Drain()
			if s := l.get("i"); s.Status != process.Completed {
				l.t.Errorf("after the retry: got %s\n%s", s.Status, l.timeline("i"))
			}
			want := "last"
			if journal != "" {
				want = journal + ", last"
			}
			if got := strings.Replace(l.took(), "j, i", "i, j", 1); got != want { // items are side by side
				l.t.Errorf("the agents: got %q, want %q", got, want)
			}
		})
	})
}

// Law 2. A panic with nil is a panic, also where GODEBUG has panicnil=1 and recover returns nil: the state stays.
func TestAPanicWithNilMakesStuck(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	c := newCrew()
	may := func() {
		if !c.sound.Load() {
			panic(nil)
		}
	}
	millracetest.Run(t, millracetest.Plan(planName, func(p *process.Plan[note]) {
		p.Tags(func(note) map[string]string { may(); return nil })
		c.do(p, "a")
		process.Then(p, "b", func(n note) note { may(); return n.add("b") })
		process.Ended(p, func(process.Snapshot[note]) goOn { panic(nil) })
	}, nil), func(t *testing.T, app *millracetest.App) {
		l := &lab{crew: c, t: t, app: app, notes: process.Open[note](app.Channels(), planName)}
		l.start("i")
		l.want("i", process.Stuck, "a")
		l.sound.Store(true)
		l.asked(l.operator("ada", "mended").Retry(t.Context(), "i", "02"))
		l.app.Drain()
		l.want("i", process.Completed, "a, b")
		l.wantPoison()
	})
}

// An instance ends although the function that says so doesn't return.
func TestNewsOfTheEndMayFail(t *testing.T) {
	t.Parallel()
	for says, fail := range map[string]func(){"panic: oh": func() { panic("oh") }, "runtime.Goexit": runtime.Goexit} {
		t.Run(says, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) {
				c.do(p, "a")
				process.Ended(p, func(process.Snapshot[note]) goOn { fail(); return goOn{} })
			}, func(l *lab) {
				l.start("i")
				l.want("i", process.Completed, "a")
				l.app.Advance(time.Hour)
				l.wantPoison()
				s, err := l.looker().Stream(l.t.Context(), "i")
				l.ok(err)
				if len(s.Notes) != 1 || s.Notes[0].Do != "not announced" || !strings.Contains(s.Notes[0].Why, says) {
					l.t.Errorf("notes: %+v", s.Notes)
				}
			})
		})
	}
}

// shaky is a message that refuses itself until it is sound.
type shaky struct {
	Sound bool `json:"sound"`
}

func (shaky) Kind() channel.Kind { return "test.shaky.v1" }

func (m shaky) Check() error {
	if !m.Sound {
		return errors.New("it is not sound")
	}
	return nil
}

// Law 2. A command that can't be sent makes its step stuck, and not the one before it.
func TestRefusedCommandMakesStuck(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a")
		process.Ask(p, "b", func(note) shaky { return shaky{c.sound.Load()} }, func(n note, g goOn) note { return n.goOn(g) })
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Stuck, "a")
		if s := l.get("i"); !slices.Equal(s.WaitsFor, []string{"b"}) || !strings.Contains(l.timeline("i"), "it is not sound") {
			l.t.Errorf("waits for %q\n%s", s.WaitsFor, l.timeline("i"))
		}
		l.sound.Store(true)
		l.asked(l.operator("ada", "mended").Retry(l.t.Context(), "i", "02"))
		l.app.Drain()
		l.want("i", process.InProcess, "a")
		l.wantPoison()
	})
}

// An instance ends although the message that says so can't be sent.
func TestRefusedNewsOfTheEnd(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a")
		process.Ended(p, func(process.Snapshot[note]) shaky { return shaky{} })
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Completed, "a")
		l.wantPoison()
		s, err := l.looker().Stream(l.t.Context(), "i")
		l.ok(err)
		if len(s.Notes) != 1 || s.Notes[0].Do != "not announced" || !strings.Contains(s.Notes[0].Why, "it is not sound") {
			l.t.Errorf("notes: %+v", s.Notes)
		}
	})
}
