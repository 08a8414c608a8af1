package process_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// hangsFor lets a call go on for so long, whatever its context says.
func hangsFor(d time.Duration, result string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		time.Sleep(d) // in a bubble
		return result, nil
	}
}

// another starts a second process of the program, whose calls of the store fail while cut is true. It ends with the
// test.
func (l *lab) another(cut *atomic.Bool) {
	l.t.Helper()
	store, _ := storagetest.Disturb(l.app.Store(), storagetest.Disturbance{Schedule: func(storagetest.Op) storagetest.Fault {
		if cut.Load() {
			return storagetest.FailBefore
		}
		return storagetest.NoFault
	}})
	routes, err := l.of.Routes()
	l.ok(err)
	c, err := channel.New(store, routes, "/another")
	l.ok(err)
	h := handlers.NewRegistry(c, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	l.ok(l.of.Register(h))
	queues := map[string]worker.QueueConfig{}
	for _, q := range h.Queues() {
		queues[q] = worker.QueueConfig{PollInterval: time.Hour}
	}
	w, err := worker.New(h, worker.Config{Name: "another", Queues: queues})
	l.ok(err)
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	l.t.Cleanup(func() {
		stop()
		l.ok(<-ended)
	})
}

// Laws 5 and 9. An agent that ignores its context is given up by its worker. Its success comes later, and is taken all
// the same. Meanwhile it isn't called beside itself.
func TestSuccessOfAGivenUpAgentIsTaken(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "charge").Attempts(1)
	}, func(l *lab) {
		l.when("charge", hangsFor(6*time.Minute, "charged"))
		l.start("i")
		l.want("i", process.Completed, "charged")
		l.app.Advance(time.Hour)
		l.wantJournal("charge")
	})
}

// Law 5. The same success is undone if its step has ended meanwhile.
func TestLateSuccessOfAGivenUpAgentIsUndone(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.pay(p).Attempts(1).Within(330 * time.Second)
	}, func(l *lab) {
		l.when("pay", hangsFor(6*time.Minute, "r1"))
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Aborted, "")
		l.wantJournal("pay, refund r1")
	})
}

// Law 5. So is the second effect of a step whose agent was called in two processes, because one of them had given it
// up.
func TestSecondSuccessOfAGivenUpAgentIsUndone(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.pay(p)
	}, func(l *lab) {
		var calls atomic.Int64
		l.when("pay", func(ctx context.Context) (string, error) {
			if calls.Add(1) > 1 {
				return "r2", nil
			}
			return hangsFor(10*time.Minute, "r1")(ctx)
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		l.pass(6 * time.Minute)
		l.another(new(atomic.Bool))
		l.app.Advance(time.Hour)
		l.want("i", process.Completed, "r2")
		l.wantJournal("pay, pay, refund r1")
	})
}

// Laws 5 and 9. The same of items, and of undos.
func TestGivenUpItemsAndUndos(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Each(p, "each", func(note) []string { return []string{"x", "y"} },
			func(ctx context.Context, i string) (string, error) { return c.work(ctx, "item "+i) }, note.add).Attempts(1).Undo(func(ctx context.Context, _, r string) error {
			_, err := c.work(ctx, "undo "+r)
			return err
		})
		c.do(p, "fail").Attempts(1)
	}, func(l *lab) {
		l.when("item x", hangsFor(6*time.Minute, "x"))
		l.when("undo x", hangsFor(7*time.Minute, ""))
		l.when("fail", func(context.Context) (string, error) { return "", errors.New("no") })
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Aborted, "item y, x")
		calls := strings.Split(l.took(), ", ")
		slices.Sort(calls)
		if want := []string{"fail", "item x", "item y", "undo item y", "undo x"}; !slices.Equal(calls, want) {
			l.t.Errorf("the agents: got %q, want %q", calls, want)
		}
	})
}

// Law 8. The failure of an agent that was given up is a failed attempt, and the next one begins. It is one attempt, and
// not as many as its message was delivered.
func TestFailureOfAGivenUpAgentIsAnAttempt(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a").Attempts(2)
	}, func(l *lab) {
		l.when("a", func(ctx context.Context) (string, error) {
			if process.Attempt(ctx) == 2 {
				return "second", nil
			}
			time.Sleep(6 * time.Minute) // in a bubble
			return "", errors.New("503")
		})
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Completed, "second")
		l.wantJournal("a, a")
	})
}

// Law 5. A success that a worker can't tell of, because the store is away, is told when the store is back. The agent is
// not called again for it.
func TestSuccessOutlastsAnOutage(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.pay(p).Attempts(1)
	}, func(l *lab) {
		var cut atomic.Bool
		l.app.Stop()
		l.another(&cut)
		for _, d := range []time.Duration{time.Second, 6 * time.Minute} {
			l.when("pay", func(ctx context.Context) (string, error) {
				r, _ := hangsFor(d, "r1")(ctx)
				cut.Store(true)
				time.AfterFunc(3*time.Minute, func() { cut.Store(false) })
				return r, nil
			})
			id := d.String()
			l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{}}))
			l.pass(time.Hour)
			l.want(id, process.Completed, "r1")
			l.wantJournal("pay")
		}
	})
}
