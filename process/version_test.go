package process_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// steps returns a plan of steps without agents' work, which waits before the last one.
func steps(c *crew, names ...string) func(p *process.Plan[note]) {
	return func(p *process.Plan[note]) {
		for i, name := range names {
			if i == len(names)-1 {
				process.Wait(p, "wait", note.goOn).Within(day)
			}
			c.do(p, name)
		}
	}
}

// startWith starts a worker with these parts of the plan, and returns the error with which it ends, if it ends at once.
func startWith(t *testing.T, s *storage.Store, parts ...process.Part) (stop func() error, err error) {
	t.Helper()
	w := worldtest.NewBare(t, s, handlers.Config{}, process.Route(planName))
	if err := process.Register(w.Registry, planName, parts...); err != nil {
		t.Fatal(err)
	}
	wk, err := worker.New(w.Registry, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	stop = func() error {
		cancel()
		return <-ended
	}
	synctest.Wait()
	select {
	case err := <-ended:
		cancel()
		return func() error { return nil }, err
	default:
		return stop, nil
	}
}

// Law 13. A program whose version has another structure than the one that is stored doesn't start. It says what is
// different, and what to do. Deadlines and attempts may differ.
func TestAVersionNeverChanges(t *testing.T) {
	t.Parallel()
	c := newCrew()
	for name, x := range map[string]struct {
		plan func(p *process.Plan[note])
		says string
	}{
		"the same": {steps(c, "a", "b"), ""},
		"other deadlines": {func(p *process.Plan[note]) {
			c.do(p, "a").Within(time.Minute).Attempts(2)
			process.Wait(p, "wait", note.goOn).Forever()
			c.do(p, "b")
		}, ""},
		"another name": {steps(c, "a", "c"), `step 03 do "c"`},
		"another step": {steps(c, "a", "b", "c"), `step 02 do "b"`},
		"a step less":  {func(p *process.Plan[note]) { c.do(p, "a"); process.Wait(p, "wait", note.goOn) }, `step 03 do "b"`},
		"another result": {func(p *process.Plan[note]) {
			process.Do(p, "a", func(context.Context, note) (int, error) { return 0, nil }, nil)
			process.Wait(p, "wait", note.goOn)
			c.do(p, "b")
		}, `step 01 do "a"`},
		"an undo":           {func(p *process.Plan[note]) { c.undoable(p, "a"); process.Wait(p, "wait", note.goOn); c.do(p, "b") }, "with an undo"},
		"another number":    {nil, ""},
		"an older one, too": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				stop, err := startWith(t, s, process.Version(1, steps(c, "a", "b")))
				worldtest.WantErr(t, err, nil)
				worldtest.WantErr(t, stop(), nil)
				parts := []process.Part{process.Version(1, x.plan)}
				if x.plan == nil {
					parts = []process.Part{process.Version(2, steps(c, "a", "c"))}
				}
				if name == "an older one, too" {
					parts = append(parts, process.Version(1, steps(c, "a", "b")))
				}
				stop, err = startWith(t, s, parts...)
				worldtest.WantErr(t, stop(), nil)
				if x.says == "" {
					worldtest.WantErr(t, err, nil)
					return
				}
				for _, part := range []string{"plan plan: version 1 is another one since 2000-01-01", x.says, "give the new plan the number 2"} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want an error that says %q", err, part)
					}
				}
			})
		})
	}
}

// changed runs a test of a program whose place others take, on the same store.
func changed(t *testing.T, first func(c *crew) []process.Part, test func(l *lab, become func(parts ...process.Part))) {
	t.Helper()
	var mu sync.Mutex
	now := map[*crew][]process.Part{} // under mu
	eachOf(t, func(c *crew) millracetest.Program {
		mu.Lock()
		defer mu.Unlock()
		now[c] = first(c)
		return millracetest.Program{
			Routes: func() (*channel.Routes, error) { return channel.NewRoutes(process.Route(planName)) },
			Register: func(h *handlers.Registry) error {
				mu.Lock()
				defer mu.Unlock()
				return process.Register(h, planName, now[c]...)
			},
		}
	}, func(l *lab) {
		test(l, func(parts ...process.Part) {
			l.app.Stop()
			mu.Lock()
			now[l.crew] = parts
			mu.Unlock()
			l.app.Start()
		})
	})
}

// Law 13. An instance goes on by its version as long as that is kept, and new ones begin with the highest.
func TestAnInstanceGoesOnByItsVersion(t *testing.T) {
	changed(t, func(c *crew) []process.Part { return []process.Part{process.Version(1, steps(c, "a", "b"))} },
		func(l *lab, become func(...process.Part)) {
			l.start("old")
			become(process.Version(1, steps(l.crew, "a", "b")), process.Version(2, steps(l.crew, "x", "y")))
			l.start("new")
			for _, id := range []string{"old", "new"} {
				l.signal(id, "ada")
			}
			l.want("old", process.Completed, "a, go on ada, b")
			l.want("new", process.Completed, "x, go on ada, y")
			if v1, v2 := l.get("old").Version, l.get("new").Version; v1 != 1 || v2 != 2 {
				l.t.Errorf("got versions %d and %d, want 1 and 2", v1, v2)
			}
		})
}

// Law 13. A worker that doesn't have an instance's version hands its messages back, for days, without spending an
// attempt. A worker that has it goes on.
func TestAnUnknownVersionIsHandedBack(t *testing.T) {
	changed(t, func(c *crew) []process.Part { return []process.Part{process.Version(1, steps(c, "a", "b"))} },
		func(l *lab, become func(...process.Part)) {
			l.start("i")
			l.took()
			become(process.Version(2, steps(l.crew, "x", "y")))
			l.ok(l.notes.Signal(l.t.Context(), "i", goOn{"ada"}))
			time.Sleep(2*time.Hour + time.Minute) // in a bubble: longer than worker.Config.UnknownFor
			l.want("i", process.InProcess, "a")
			l.wantJournal("")
			l.wantPoison()
			become(process.Version(1, steps(l.crew, "a", "b")), process.Version(2, steps(l.crew, "x", "y")))
			l.app.Drain()
			l.want("i", process.Completed, "a, go on ada, b")
			l.wantPoison()
		})
}

// Law 13. The begin of an agent is handed back, too, and spends no attempt of the step.
func TestAnAgentOfAnUnknownVersionIsHandedBack(t *testing.T) {
	changed(t, func(c *crew) []process.Part {
		return []process.Part{process.Version(1, func(p *process.Plan[note]) { c.do(p, "a").Attempts(1).Within(10 * time.Hour) })}
	}, func(l *lab, become func(...process.Part)) {
		l.when("a", func(context.Context) (string, error) {
			if !l.sound.Load() {
				return "", handlers.Later(time.Minute, "closed")
			}
			return "a", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		time.Sleep(time.Minute)
		become(process.Version(2, steps(l.crew, "x", "y")))
		time.Sleep(2 * time.Hour)
		l.sound.Store(true)
		become(process.Version(1, func(p *process.Plan[note]) { l.do(p, "a").Attempts(1).Within(10 * time.Hour) }), process.Version(2, steps(l.crew, "x", "y")))
		l.app.Drain()
		l.want("i", process.Completed, "a")
		l.wantPoison()
	})
}

// Law 13. An upgrade takes an instance over at its next message, with its state and under the new names. One that
// stands at a step that the new version doesn't have goes on by its own until it doesn't.
func TestUpgrade(t *testing.T) {
	old := func(c *crew) func(p *process.Plan[note]) {
		return func(p *process.Plan[note]) {
			c.undoable(p, "pay")
			process.Wait(p, "wait", note.goOn)
			c.do(p, "gone")
			process.Wait(p, "wait again", note.goOn)
			c.do(p, "b")
		}
	}
	changed(t, func(c *crew) []process.Part { return []process.Part{process.Version(1, old(c))} },
		func(l *lab, become func(...process.Part)) {
			l.start("soon")
			l.start("late")
			l.when("gone", func(context.Context) (string, error) { return "", handlers.Retry(10*time.Minute, errors.New("closed")) })
			l.signal("late", "ada") // it stands at a step that the new version doesn't have
			l.took()
			become(
				process.Version(1, old(l.crew)),
				process.Version(2, func(p *process.Plan[note]) {
					l.undoable(p, "charge")
					process.Wait(p, "wait", note.goOn)
					process.Wait(p, "wait again", note.goOn)
					l.do(p, "c")
				}),
				process.Upgrade(1, 2, func(n note) note { return n.add("upgraded") }, process.Renamed("pay", "charge")))
			l.signal("soon", "bob")
			l.want("soon", process.InProcess, "pay, upgraded, go on bob")
			l.when("gone", func(context.Context) (string, error) { return "gone", nil })
			l.app.Advance(11 * time.Minute)
			l.want("late", process.InProcess, "pay, go on ada, gone")
			if v := l.get("late").Version; v != 1 {
				l.t.Errorf("late: got version %d, want that it goes on by its own", v)
			}
			l.signal("late", "ada")
			l.want("late", process.Completed, "pay, go on ada, gone, upgraded, go on ada, c")
			l.ok(l.notes.Cancel(l.t.Context(), "soon", "ada", "enough"))
			l.app.Drain()
			l.want("soon", process.Canceled, "pay, upgraded, go on bob")
			got := l.took()
			if l.steps { // a begin that a stopped worker may not have sent may be sent once more
				got = strings.Replace(got, "gone, gone", "gone", 1)
			}
			if want := "gone, c, undo charge"; got != want {
				l.t.Errorf("the agents: got %q, want %q", got, want)
			}
		})
}

// Law 13. A version whose instances have ended may go. They are known as ended, and their retention ends, all the same.
func TestAVersionMayGoWhenItsInstancesHaveEnded(t *testing.T) {
	changed(t, func(c *crew) []process.Part { return []process.Part{process.Version(1, steps(c, "a", "b"))} },
		func(l *lab, become func(...process.Part)) {
			l.start("i")
			l.signal("i", "ada")
			become(process.Version(2, steps(l.crew, "x", "y")))
			l.took()
			l.start("i")
			l.want("i", process.Completed, "a, go on ada, b")
			l.pause(30*day + time.Hour)
			if d := document(l, "i"); !d.Purged || d.Version != 1 {
				l.t.Errorf("after its retention: got %s of version %d, with its steps", d.Status, d.Version)
			}
			l.start("i")
			l.wantJournal("")
			l.pause(30 * day)
			l.start("i")
			l.wantJournal("x")
		})
}

// Laws 13 and 15. The structure of a plan of thousands of steps is stored, and compared, like any other.
func TestALongPlanNeverChanges(t *testing.T) {
	t.Parallel()
	c := newCrew()
	long := func(last string) func(p *process.Plan[note]) {
		return func(p *process.Plan[note]) {
			for i := range 3000 {
				c.do(p, fmt.Sprint("step ", i))
			}
			c.do(p, last)
		}
	}
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		stop, err := startWith(t, s, process.Version(1, long("a")))
		worldtest.WantErr(t, err, nil)
		worldtest.WantErr(t, stop(), nil)
		look, err := process.Look(s, "plan", "/test")
		worldtest.WantErr(t, err, nil)
		if all, err := look.Versions(t.Context()); err != nil || len(all) != 1 || all[0].Steps != 3001 {
			t.Errorf("want one version of 3001 steps, got %+v, %v", all, err)
		}
		stop, err = startWith(t, s, process.Version(1, long("b")))
		worldtest.WantErr(t, stop(), nil)
		if err == nil || !strings.Contains(err.Error(), `do "b"`) {
			t.Errorf("got %v, want an error that names the step", err)
		}
	})
}
