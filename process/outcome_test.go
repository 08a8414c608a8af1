package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// paid is a result that says which effect it stands for.
type paid struct {
	Number string    `json:"number"`
	At     time.Time `json:"at"`
}

func (p paid) Effect() string { return p.Number }

// pay adds a step whose result has an effect, and whose undo names it in the journal.
func (c *crew) pay(p *process.Plan[note]) *process.Step[note, note, paid] {
	return process.Do(p, "pay", func(ctx context.Context, _ note) (paid, error) {
		number, err := c.work(ctx, "pay")
		return paid{number, time.Now()}, err
	}, func(n note, p paid) note { return n.add(p.Number) }).Undo(func(ctx context.Context, _ note, p paid) error {
		_, err := c.work(ctx, "refund "+p.Number)
		return err
	})
}

// Law 5. A success that comes after the step's deadline is undone, once, whatever the instance has become meanwhile.
func TestLateSuccessIsUndone(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		c.pay(p).Try(4 * time.Minute).Within(time.Minute).Attempts(1)
	}, func(l *lab) {
		l.when("pay", func(context.Context) (string, error) {
			time.Sleep(3 * time.Minute) // in a bubble
			return "r1", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		time.Sleep(2 * time.Minute)
		l.want("i", process.Aborted, "a")
		l.app.Drain()
		l.want("i", process.Aborted, "a")
		l.wantJournal("a, pay, undo a, refund r1")
	})
}

// Law 5. A worker that had lost its message may tell of another effect, after the step has ended well. That effect is
// undone, once. The same effect told again is nothing, whatever else the result says.
func TestSecondEffectIsUndone(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.pay(p)
		process.Wait(p, "wait", note.goOn)
	}, func(l *lab) {
		l.when("pay", func(context.Context) (string, error) { return "r1", nil })
		l.start("i")
		for _, number := range []string{"r1", "r2", "r2"} {
			l.app.Send(flow.Done{
				Plan: planName, ID: "i", Path: "01", Attempt: 1, Outcome: flow.OK, Effect: number,
				Result: jsontext.Value(fmt.Sprintf(`{"number":%q,"at":%q}`, number, time.Now().Format(time.RFC3339Nano))),
			})
			l.app.Drain()
		}
		l.wantJournal("pay, refund r2")
		l.signal("i", "ada")
		l.want("i", process.Completed, "r1, go on ada")
		l.wantJournal("")
	})
}

// Law 5. Without a word for its effect, another result is only marked.
func TestSecondResultIsMarked(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		process.Wait(p, "wait", note.goOn)
	}, func(l *lab) {
		l.start("i")
		for _, result := range []string{`"a"`, `"other"`, `"other"`} {
			l.app.Send(flow.Done{Plan: planName, ID: "i", Path: "01", Attempt: 1, Outcome: flow.OK, Result: jsontext.Value(result)})
			l.app.Drain()
		}
		l.wantJournal("a")
		l.want("i", process.InProcess, "a")
		if ev := document(l, "i").Events[0]; len(ev.Twice) != 1 {
			l.t.Errorf("marked %d times, want once", len(ev.Twice))
		}
	})
}

// document reads the document of an instance, or of a part of it.
func document(l *lab, id string) flow.Instance {
	l.t.Helper()
	blob, err := l.app.Store().Blobs(planName).Get(l.t.Context(), id, "")
	l.ok(err)
	d, err := values.Peek[flow.Instance](blob.Body)
	l.ok(err)
	return d
}

// Law 7. Of a deadline and a success the first one folded decides. A step that has ended well is not ended by its
// deadline.
func TestTheFirstOneDecides(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Wait(p, "wait", note.goOn).Within(time.Hour)
		c.do(p, "last")
	}, func(l *lab) {
		for _, id := range []string{"early", "late"} {
			l.start(id)
		}
		l.app.Advance(59 * time.Minute)
		l.signal("early", "ada")
		l.app.Advance(2 * time.Minute)
		l.signal("late", "bob")
		l.app.Advance(time.Hour)
		l.want("early", process.Completed, "go on ada, last")
		l.want("late", process.Aborted, "")
		l.wantError("late", "no end within 1h0m0s")
		if !strings.Contains(l.timeline("late"), "unheard test.goon.v1") {
			l.t.Errorf("the late signal is not noted:\n%s", l.timeline("late"))
		}
	})
}

// Law 12. A signal before its Wait, or before the start, waits in the document. Without a start it is kept for a day.
func TestEarlyIsKept(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a")
		process.Wait(p, "first", note.goOn)
		process.Wait(p, "second", note.goOn)
	}, func(l *lab) {
		for _, id := range []string{"soon", "never"} {
			l.signal(id, "ada")
			if _, err := l.notes.Get(l.t.Context(), id); !errors.Is(err, storage.ErrNotFound) || stream(l, id).Status != process.Init {
				l.t.Errorf("before the start: got %v, want that nobody has started it", err)
			}
		}
		l.app.Advance(23 * time.Hour)
		l.start("soon")
		l.want("soon", process.InProcess, "a, go on ada")
		l.signal("soon", "bob")
		l.want("soon", process.Completed, "a, go on ada, go on bob")
		l.app.Advance(2 * time.Hour)
		if _, err := l.notes.Get(l.t.Context(), "never"); err == nil {
			l.t.Error("a signal without a start is still kept after a day")
		}
		l.start("never")
		l.want("never", process.InProcess, "a")
	})
}

// Law 12. A copy of a signal is no second one: the document has a record of those that it has taken.
func TestACopyOfASignal(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Wait(p, "first", note.goOn)
		process.Wait(p, "second", note.goOn)
	}, func(l *lab) {
		l.start("i")
		m := flow.Signal{Plan: planName, ID: "i", Sort: goOn{}.Kind(), Body: jsontext.Value(`{"by":"ada"}`)}
		e, err := wire.Compose(m, "/test", time.Now())
		l.ok(err)
		for range 3 {
			packed, err := l.app.Channels().Outbox().Pack(l.t.Context(), e)
			l.ok(err)
			l.ok(l.app.Channels().Outbox().SendPacked(l.t.Context(), packed))
			l.app.Drain()
		}
		l.want("i", process.InProcess, "go on ada")
		l.signal("i", "bob")
		l.want("i", process.Completed, "go on ada, go on bob")
	})
}

// Law 12. More early signals than a document keeps push out the oldest, which are noted as unheard. So are those that
// come when the instance has ended.
func TestEarlyIsBounded(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		for i := range 64 {
			process.Wait(p, fmt.Sprint("wait ", i), note.goOn)
		}
	}, func(l *lab) {
		for i := range 66 {
			l.signal("i", fmt.Sprint(i))
		}
		l.start("i")
		s := l.get("i")
		if s.Status != process.Completed || len(s.State.Did) != 64 || s.State.Did[0] != "go on 2" {
			l.t.Errorf("got %s, %q; want the last 64 signals taken", s.Status, s.State.Did)
		}
		l.signal("i", "late")
		if n := strings.Count(l.timeline("i"), "unheard test.goon.v1"); n != 3 {
			l.t.Errorf("got %d notes of unheard signals, want 3\n%s", n, l.timeline("i"))
		}
	})
}

// fat is a signal of many bytes.
type fat struct {
	Text string `json:"text"`
}

func (fat) Kind() channel.Kind { return "test.fat.v1" }

// Law 15. Early signals can't keep an instance from its start: those for which there is no room are refused when they
// are sent, and by a worker if many are sent at the same time. A signal that its step waits for has all the room.
func TestStartFitsBehindEarlySignals(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Wait(p, "fat", func(n note, f fat) note { return n.add(fmt.Sprint(len(f.Text))) })
	}, func(l *lab) {
		send := func(id string) error { return l.notes.Signal(l.t.Context(), id, fat{strings.Repeat("x", 42_000)}) }
		refused := 0
		for range 6 {
			switch err := send("one by one"); {
			case errors.Is(err, storage.ErrTooLarge) && strings.Contains(err.Error(), "send the signal again"):
				refused++
			case err != nil:
				l.t.Error(err)
			}
			l.app.Drain()
		}
		if refused != 5 {
			l.t.Errorf("%d of 6 early signals are refused, want 5", refused)
		}
		if _, err := l.operator("ada", "").Signal(l.t.Context(), "one by one", fat{}.Kind(), []byte(`{"text":"`+strings.Repeat("x", 42_000)+`"}`)); !errors.Is(err, storage.ErrTooLarge) {
			l.t.Errorf("an operator's: got %v", err)
		}
		l.app.Stop()
		for range 6 {
			l.ok(send("together"))
		}
		l.app.Start()
		l.app.Drain()
		reasons := make([]string, 5)
		for i := range reasons {
			reasons[i] = "plan: too many early signals"
		}
		l.wantPoison(reasons...)
		for _, id := range []string{"one by one", "together", "none"} {
			l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{strings.Repeat("s", 190_000)}}))
			l.app.Drain()
			if id == "none" {
				l.ok(send(id))
				l.app.Drain()
			}
			if s := l.get(id); s.Status != process.Completed {
				l.t.Errorf("%s: got %s, want completed\n%s", id, s.Status, l.timeline(id))
			}
		}
	})
}

// Law 6. The sweep nudges an instance whose alarm is lost, and the fold arms another one.
func TestLostAlarm(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { process.Wait(p, "wait", note.goOn).Within(time.Hour) }, func(l *lab) {
		l.start("i")
		l.app.Stop()
		time.Sleep(2 * time.Hour) // in a bubble: a queue gives only what is due
		purge(l, "plan-alarms")
		l.app.Start()
		l.app.Drain()
		l.want("i", process.Aborted, "")
	})
}

// purge loses the messages of a queue that are due.
func purge(l *lab, queue string) {
	l.t.Helper()
	q := l.app.Store().Queue(queue)
	for {
		ds, err := q.Receive(l.t.Context(), 32, time.Minute)
		l.ok(err)
		if len(ds) == 0 {
			return
		}
		for _, d := range ds {
			l.ok(q.Delete(l.t.Context(), []storage.Receipt{d.Receipt}))
		}
	}
}

// Law 10. Undo goes in the reverse order of ending. An undo is tried again; one that fails for good makes the instance
// stuck, and a retry goes on.
func TestUndoInReverseOrder(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		process.All(p, "all",
			func(p *process.Plan[note]) { c.undoable(p, "slow") },
			func(p *process.Plan[note]) { c.undoable(p, "fast") })
		c.undoable(p, "b")
		c.do(p, "c").Attempts(1)
	}, func(l *lab) {
		l.when("slow", func(context.Context) (string, error) { time.Sleep(time.Minute); return "slow", nil }) // in a bubble
		l.when("c", func(context.Context) (string, error) { return "", errors.New("no") })
		broken := 8
		l.when("undo b", func(ctx context.Context) (string, error) {
			switch broken--; {
			case broken == 3:
				return "", handlers.Poison("closed", nil)
			case broken >= 0:
				return "", errors.New("closed")
			}
			return "", nil
		})
		l.start("i")
		l.app.Advance(12 * time.Hour)
		l.want("i", process.Stuck, "a, fast, slow, b")
		if got, want := l.took(), "a, slow, fast, b, c"+strings.Repeat(", undo b", 5); got != want && got != strings.Replace(want, "slow, fast", "fast, slow", 1) {
			l.t.Errorf("the agents: got %q, want %q", got, want)
		}
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough")) // it can't be cancelled
		l.app.Drain()
		l.want("i", process.Stuck, "a, fast, slow, b")
		l.asked(l.operator("ada", "open again").Retry(l.t.Context(), "i", "03"))
		l.app.Drain()
		l.app.Advance(12 * time.Hour)
		l.want("i", process.Aborted, "a, fast, slow, b")
		l.wantError("i", "no")
		got := l.took()
		if want := strings.Repeat("undo b, ", 4) + "undo slow, undo fast, undo a"; got != want && got != strings.Replace(want, "undo slow, undo fast", "undo fast, undo slow", 1) {
			l.t.Errorf("the agents: got %q, want %q", got, want)
		}
	})
}

// Law 11. A cancelled instance begins nothing more. An agent at work has 30 seconds to answer; its success is undone.
func TestCancel(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		c.undoable(p, "b").Try(2 * time.Minute)
		c.do(p, "c")
	}, func(l *lab) {
		for id, takes := range map[string]time.Duration{"in time": 20 * time.Second, "late": time.Minute} {
			l.when("b", func(context.Context) (string, error) { time.Sleep(takes); return "b", nil }) // in a bubble
			l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{}}))
			time.Sleep(time.Second)
			for range 2 { // twice is once
				l.ok(l.notes.Cancel(l.t.Context(), id, "ada", "enough"))
			}
			time.Sleep(40 * time.Second)
			l.want(id, process.Canceled, "a")
			l.wantError(id, "canceled by ada")
			l.app.Drain()
			l.want(id, process.Canceled, "a")
			want := map[string]string{"in time": "a, b, undo b, undo a", "late": "a, b, undo a, undo b"}
			l.wantJournal(want[id])
		}
	})
}

// Law 11. A cancel reaches parts and pages, and each of them has answered before the instance ends. All that they have
// done is undone.
func TestCancelReachesPartsAndPages(t *testing.T) {
	for name, plan := range map[string]func(c *crew, p *process.Plan[note]){
		"parts": func(c *crew, p *process.Plan[note]) {
			process.Split(p, "split", func(note) []string { return []string{"x", "y", "z"} }, func(i string) note { return note{Did: []string{i}} },
				func(p *process.Plan[note]) {
					c.undoable(p, "part")
					process.Wait(p, "wait", note.goOn)
				}, nil)
		},
		"parts of a part": func(c *crew, p *process.Plan[note]) {
			process.Child(p, "sub", func(n note) note { return n }, func(p *process.Plan[note]) {
				process.Split(p, "split", func(note) []string { return []string{"x", "y", "z"} }, func(i string) note { return note{Did: []string{i}} },
					func(p *process.Plan[note]) {
						c.undoable(p, "part")
						process.Wait(p, "wait", note.goOn)
					}, nil)
			}, func(n, _ note) note { return n })
		},
		"pages": func(c *crew, p *process.Plan[note]) {
			process.Each(p, "each", func(note) []string { return make([]string, 1025) }, func(ctx context.Context, _ string) (string, error) {
				if _, err := c.work(ctx, "item"); err != nil {
					return "", err
				}
				return "", nil
			}, nil).AtOnce(8).Undo(func(ctx context.Context, _, _ string) error { _, err := c.work(ctx, "undo item"); return err })
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, plan, func(l *lab) {
				var n atomic.Int64
				l.when("item", func(context.Context) (string, error) {
					if n.Add(1) > 20 {
						time.Sleep(20 * time.Second) // in a bubble: these are at work
					}
					return "", nil
				})
				l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
				time.Sleep(10 * time.Second)
				l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
				l.app.Advance(time.Hour)
				l.want("i", process.Canceled, "")
				got := l.took()
				done := strings.Count(got, "part") + strings.Count(got, "item")
				if undone := strings.Count(got, "undo"); undone == 0 || done != 2*undone {
					l.t.Errorf("%d done, and %d undone; want as many: %s", done-undone, undone, got)
				}
				for _, line := range stream(l, "i").Lines {
					if line.Status == process.InProcess {
						l.t.Errorf("step %s %s is open", line.ID, line.Name)
					}
				}
			})
		})
	}
}

func stream(l *lab, id string) *process.Stream {
	l.t.Helper()
	s, err := l.looker().Stream(l.t.Context(), id)
	l.ok(err)
	return s
}

// Law 14. Retry and Skip act on what is stuck, and Rerun on what has ended; all are noted with their reasons. A retry
// keeps the key, and a run again has another one, with new deadlines.
func TestActsOfOperators(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		c.undoable(p, "b").Within(time.Hour)
	}, func(l *lab) {
		ctx := l.t.Context()
		keys := map[string]bool{}
		l.when("b", func(ctx context.Context) (string, error) {
			keys[process.Key(ctx)] = true
			return "", process.Refuse(errors.New("no"))
		})
		l.when("undo a", func(context.Context) (string, error) { return "", process.Refuse(errors.New("closed")) })
		l.start("i")
		l.want("i", process.Stuck, "a")
		if _, err := l.operator("ada", "too soon").Retry(ctx, "i", "02"); err == nil || !strings.Contains(err.Error(), "step 02 b is not stuck: it is aborted") {
			l.t.Errorf("retry of what is not stuck: got %v", err)
		}
		l.asked(l.operator("ada", "done by hand").Skip(ctx, "i", "01", nil))
		l.app.Drain()
		l.want("i", process.Aborted, "a")
		l.app.Advance(3 * time.Hour)
		l.when("b", func(ctx context.Context) (string, error) { keys[process.Key(ctx)] = true; return "b", nil })
		l.asked(l.operator("bob", "they have money now").Rerun(ctx, "i", "02"))
		l.app.Drain()
		l.want("i", process.Aborted, "a") // what b needs was undone
		l.asked(l.operator("bob", "they have money now").Rerun(ctx, "i", "01"))
		l.app.Drain()
		l.want("i", process.Completed, "a, a, b")
		if len(keys) != 2 {
			l.t.Errorf("b had the keys %v, want another one when it runs again", keys)
		}
		text := l.timeline("i")
		for _, want := range []string{"skip 01 ada done by hand", "rerun refused 02 bob step a", "rerun 01 bob they have money now"} {
			if !strings.Contains(text, want) {
				l.t.Errorf("not noted: %q\n%s", want, text)
			}
		}
	})
}
