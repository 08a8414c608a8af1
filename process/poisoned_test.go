package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/values"
)

// refusing is a middleware that sends messages of some kinds to the poison queue, until the crew is sound.
func refusing(c *crew, kinds ...channel.Kind) []handlers.Middleware {
	return []handlers.Middleware{func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			for _, k := range kinds {
				done, _ := d.Message.(flow.Done)
				if d.Envelope.Kind == k && done.Outcome != flow.Lost && !c.sound.Load() {
					return handlers.Poison("not today", nil)
				}
			}
			return next(ctx, d)
		}
	}}
}

// retryPoison sends all messages back from the poison queue of a queue.
func retryPoison(l *lab, queue string) {
	l.t.Helper()
	q := poison.At(l.app.Channels(), queue)
	for _, e := range l.app.Poison() {
		if e.Queue == queue {
			l.ok(q.Retry(l.t.Context(), e.Key))
		}
	}
	l.app.Drain()
}

// A word of an agent, of an undo or of a part that goes to the poison queue makes its step stuck, with the reason. When
// it is sent back, the instance goes on as if nothing had been.
func TestLostWordMakesStuck(t *testing.T) {
	for name, c := range map[string]struct {
		plan  func(c *crew, p *process.Plan[note])
		stuck string // what it waits for
		end   process.Status
		did   string
	}{
		"an agent's": {func(c *crew, p *process.Plan[note]) { c.do(p, "a"); c.do(p, "b") }, "a", process.Completed, "a, b"},
		"a failure": {func(c *crew, p *process.Plan[note]) {
			process.Do(p, "fail", func(context.Context, note) (string, error) { return "", process.Refuse(errors.New("no")) }, note.add)
		}, "fail", process.Aborted, ""},
		"an item's": {func(c *crew, p *process.Plan[note]) {
			process.Each(p, "each", func(note) []string { return []string{"x", "y"} },
				func(ctx context.Context, i string) (string, error) { return "item", nil }, note.add)
			c.do(p, "b")
		}, "each", process.Completed, "item, item, b"},
		"a list's": {func(c *crew, p *process.Plan[note]) {
			process.EachFrom(p, "from", func(_ context.Context, _ note, from string) ([]string, string, error) {
				return []string{"x", "y"}, "", nil
			},
				func(ctx context.Context, i string) (string, error) { return "item", nil }, note.add)
		}, "from", process.Completed, "item, item"},
		"a part's": {func(c *crew, p *process.Plan[note]) {
			process.Child(p, "sub", func(n note) note { return n }, func(p *process.Plan[note]) { process.Then(p, "then", func(n note) note { return n.add("sub") }) },
				func(_, sub note) note { return sub })
			c.do(p, "b")
		}, "sub", process.Completed, "sub, b"},
		"parts'": {func(c *crew, p *process.Plan[note]) {
			process.Split(p, "split", func(note) []string { return []string{"x", "y"} }, func(i string) note { return note{Did: []string{i}} },
				func(p *process.Plan[note]) { process.Then(p, "then", func(n note) note { return n }) },
				func(n, sub note) note { return n.add("part") })
			c.do(p, "b")
		}, "split", process.Completed, "part, part, b"},
	} {
		t.Run(name, func(t *testing.T) {
			eachOf(t, func(crew *crew) millracetest.Program {
				p := millracetest.Plan(planName, func(p *process.Plan[note]) { c.plan(crew, p) }, nil)
				p.Handlers.Middleware = refusing(crew, "process.plan.done")
				return p
			}, func(l *lab) {
				l.start("i")
				l.app.Advance(3 * time.Hour) // no deadline ends it
				s := l.get("i")
				if s.Status != process.Stuck || len(s.WaitsFor) != 1 || s.WaitsFor[0] != c.stuck {
					l.t.Fatalf("got %s, waits for %q; want stuck at %s\n%s", s.Status, s.WaitsFor, c.stuck, l.timeline("i"))
				}
				if !strings.Contains(l.timeline("i"), "in the poison queue of plan: not today") {
					l.t.Errorf("the step doesn't say why:\n%s", l.timeline("i"))
				}
				l.sound.Store(true)
				retryPoison(l, planName)
				l.want("i", c.end, c.did)
			})
		})
	}
}

// The word of an undo, too.
func TestLostWordOfAnUndo(t *testing.T) {
	eachOf(t, func(c *crew) millracetest.Program {
		p := millracetest.Plan(planName, func(p *process.Plan[note]) {
			c.undoable(p, "a")
			process.Wait(p, "wait", note.goOn).Within(time.Hour)
		}, nil)
		c.sound.Store(true)
		p.Handlers.Middleware = refusing(c, "process.plan.done")
		return p
	}, func(l *lab) {
		l.start("i")
		l.sound.Store(false)
		l.app.Advance(30 * time.Hour)
		l.want("i", process.Stuck, "a")
		if !strings.Contains(l.timeline("i"), "in the poison queue of plan: not today") {
			l.t.Errorf("the undo doesn't say why:\n%s", l.timeline("i"))
		}
		l.sound.Store(true)
		retryPoison(l, planName)
		l.want("i", process.Aborted, "a")
		l.wantJournal("a, undo a")
	})
}

// An operator may also act on the step: a retry asks the agent again, with the same key. The word that comes late is
// the same effect.
func TestRetryOfALostWord(t *testing.T) {
	eachOf(t, func(c *crew) millracetest.Program {
		p := millracetest.Plan(planName, func(p *process.Plan[note]) { c.undoable(p, "a") }, nil)
		p.Handlers.Middleware = refusing(c, "process.plan.done")
		return p
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Stuck, "")
		l.sound.Store(true)
		l.asked(l.operator("ada", "again").Retry(l.t.Context(), "i", "01"))
		l.app.Drain()
		l.want("i", process.Completed, "a")
		retryPoison(l, planName)
		l.want("i", process.Completed, "a")
		l.wantJournal("a, a")
	})
}

// An alarm in the poison queue makes the step stuck that it would end, and ends it when it is sent back.
func TestLostAlarmMakesStuck(t *testing.T) {
	eachOf(t, func(c *crew) millracetest.Program {
		p := millracetest.Plan(planName, func(p *process.Plan[note]) {
			process.Sleep(p, "sleep", time.Hour)
			c.do(p, "b")
		}, nil)
		p.Handlers.Middleware = refusing(c, "process.plan.alarm")
		return p
	}, func(l *lab) {
		l.start("i")
		l.app.Advance(3 * time.Hour)
		l.want("i", process.Stuck, "")
		if n := len(l.app.Poison()); n != 1 {
			l.t.Errorf("%d messages in the poison queues, want one", n)
		}
		l.sound.Store(true)
		retryPoison(l, "plan-alarms")
		l.want("i", process.Completed, "b")
	})
}

// A part whose start goes to the poison queue has failed.
func TestLostStartFailsThePart(t *testing.T) {
	eachOf(t, func(c *crew) millracetest.Program {
		p := millracetest.Plan(planName, func(p *process.Plan[note]) {
			c.undoable(p, "a")
			process.Child(p, "sub", func(n note) note { return n }, func(p *process.Plan[note]) { c.do(p, "in sub") }, func(_, sub note) note { return sub })
		}, nil)
		p.Handlers.Middleware = []handlers.Middleware{func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				if strings.Contains(d.Envelope.Subject, "/") && d.Envelope.Kind == "process.plan.start" {
					return handlers.Poison("not today", nil)
				}
				return next(ctx, d)
			}
		}}
		return p
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Aborted, "a")
		l.wantError("i", "in the poison queue of plan: not today")
		l.wantJournal("a, undo a")
		l.wantPoison("plan: not today")
	})
}

// The domain of asking: a shelf that answers, and says when it is full again.

type question struct {
	What string `json:"what"`
}
type answered struct {
	What string `json:"what"`
}
type refilled struct {
	Instance string `json:"instance"`
}

func (question) Kind() channel.Kind { return "test.ask.v1" }
func (answered) Kind() channel.Kind { return "test.told.v1" }
func (refilled) Kind() channel.Kind { return "test.filled.v1" }

// asking is the program of a plan that asks, and waits for an event of the program.
func asking(c *crew) millracetest.Program {
	plan := func(p *process.Plan[note]) {
		process.Ask(p, "ask", func(note) question { return question{"tea"} }, func(n note, t answered) note { return n.add("told " + t.What) })
		process.Keyed(process.Wait(p, "filled", func(n note, _ refilled) note { return n.add("filled") }), func(f refilled) string { return f.Instance })
	}
	return millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(process.Route(planName), channel.Command[question]("shelf"), channel.Event[answered](planName, "others"), channel.Event[refilled](planName))
		},
		Register: func(h *handlers.Registry) error {
			shelf := values.New(h.Channels(), "shelf", values.Config[int]{})
			handlers.Decide(h, shelf, func(a question) string { return a.What }, func(n int, a question) (int, []channel.Message, error) {
				return n + 1, []channel.Message{answered(a)}, nil
			}, answered{})
			handlers.React(h, "others", func(context.Context, answered) error { return nil })
			handlers.OnPoison(h, func(answered, handlers.Poisoned) []channel.Message { return nil }) // the program's own
			return process.Register(h, planName, process.Version(1, plan))
		},
		Handlers: handlers.Config{Middleware: refusing(c, "test.told.v1", "test.filled.v1")},
	}
}

// An event that the plan listens to, and that goes to the plan's poison queue, makes the step stuck that waits for it.
func TestLostEventMakesStuck(t *testing.T) {
	eachOf(t, asking, func(l *lab) {
		for _, step := range []string{"ask", "filled"} {
			if l.sound.Store(false); step == "ask" {
				l.start("i")
			} else {
				l.app.Send(refilled{"i"})
			}
			l.app.Advance(3 * time.Hour)
			s := l.get("i")
			if s.Status != process.Stuck || len(s.WaitsFor) != 1 || s.WaitsFor[0] != step {
				l.t.Fatalf("got %s, waits for %q; want stuck at %s\n%s", s.Status, s.WaitsFor, step, l.timeline("i"))
			}
			if !strings.Contains(l.timeline("i"), "in the poison queue of plan: not today") {
				l.t.Errorf("the step doesn't say why:\n%s", l.timeline("i"))
			}
			l.sound.Store(true)
			retryPoison(l, planName)
		}
		l.want("i", process.Completed, "told tea, filled")
	})
}

// Law 15. A result that doesn't fit makes its step stuck, with a reason that says so. A larger one goes to the poison
// queue under that reason. Another instance is not concerned, and skipping lets this one go on.
func TestTooLargeAResult(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		says   string
		poison []string
	}{
		"large":      {300 << 10, "keep large states and results in a store of your own", nil},
		"very large": {1 << 20, "in the poison queue of plan: document too large", []string{"plan: document too large"}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a"); c.do(p, "b") }, func(l *lab) {
				l.when("a", func(ctx context.Context) (string, error) {
					if process.ID(ctx) == "large" {
						return strings.Repeat("x", c.size), nil
					}
					return "a", nil
				})
				l.start("small")
				l.start("large")
				l.want("small", process.Completed, "a, b")
				l.want("large", process.Stuck, "")
				l.wantPoison(c.poison...)
				if text := l.timeline("large"); !strings.Contains(text, "01 a stuck") || !strings.Contains(text, c.says) {
					l.t.Errorf("the instance doesn't show it:\n%s", text)
				}
				for e, err := range l.looker().Open(l.t.Context()) {
					if err != nil || e.ID != "large" || e.Status != process.Stuck {
						l.t.Errorf("index: got %+v, %v; want large, stuck", e, err)
					}
				}
				l.asked(l.operator("ada", "it is in the archive").Skip(l.t.Context(), "large", "01", []byte(`"by hand"`)))
				l.app.Drain()
				l.want("large", process.Completed, "by hand, b")
			})
		})
	}
}

// Law 15. A document that is full can still be cancelled, and what was done is undone.
func TestFullDocumentCanBeCancelled(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		process.Wait(p, "wait", note.goOn)
	}, func(l *lab) {
		l.when("a", func(context.Context) (string, error) { return strings.Repeat("x", flow.MaxSize/3-2000), nil })
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		l.app.Drain()
		if s := l.get("i"); s.Status != process.InProcess {
			l.t.Fatalf("got %s, want that it waits\n%.3000s", s.Status, l.timeline("i"))
		}
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", strings.Repeat("because ", 400)))
		l.app.Drain()
		if s := l.get("i"); s.Status != process.Canceled {
			l.t.Errorf("got %s, want cancelled", s.Status)
		}
		l.wantJournal("a, undo a")
	})
}
