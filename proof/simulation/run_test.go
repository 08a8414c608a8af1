package simulation

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// simulate runs a plan on SQLite, and returns the auditor's findings.
func simulate(t *testing.T, p func(epoch time.Time) plan) (w *world, found []finding) {
	t.Helper()
	return simulateOn(t, onSQLite(t), p)
}

func onSQLite(*testing.T) (open func(*testing.T) *storage.Store) {
	return func(t *testing.T) *storage.Store { return worldtest.OpenStore(t, worldtest.Virtual) }
}

func simulateOn(t *testing.T, open func(*testing.T) *storage.Store, p func(epoch time.Time) plan) (w *world, found []finding) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(open(t), p(time.Now()))
		ctx, stop := context.WithCancel(context.Background())
		var workers sync.WaitGroup
		for i := range w.plan.Workers {
			workers.Go(func() { w.Keep(ctx, i, w.keeper(i), nil) })
		}
		w.client(ctx)
		if w.plan.Schedule == nil {
			_ = worldtest.Pause(ctx, 10*time.Minute)
		} else {
			w.drain(ctx)
		}
		w.EndFaults()
		if w.plan.Schedule == nil {
			_ = worldtest.Pause(ctx, 15*time.Minute)
			w.operate(ctx)
		}
		w.drain(ctx)
		stop()
		workers.Wait()
		found = w.audit(t.Context())
	})
	return w, found
}

// client sends the commands, some of them more than once. It is like a web process whose own calls are disturbed too.
func (w *world) client(ctx context.Context) {
	web := w.newClient("web")
	if _, err := web.register(); err != nil {
		w.Fail("web: %v", err)
		return
	}
	now, err := channel.NewSender[book](web.channels)
	if err != nil {
		w.Fail("web: %v", err)
		return
	}
	later, err := channel.NewSender[bookLater](web.channels)
	if err != nil {
		w.Fail("web: %v", err)
		return
	}
	garbage := w.plan.Seed%5 == 0
	for i := range max(len(w.plan.commands), len(w.plan.orders)) {
		w.order(ctx, web, i)
		if i >= len(w.plan.commands) {
			continue
		}
		c := w.plan.commands[i]
		_ = worldtest.Pause(ctx, c.after)
		batch := append([]command{c}, w.plan.commands[max(0, i-c.with):i]...)
		for _, c := range batch {
			for try := 1; ; try++ {
				w.trying(c.book)
				if c.later {
					err = later.Send(ctx, bookLater{c.book})
				} else {
					err = now.Send(ctx, c.book)
				}
				w.Tell("web sends %s (%s, %s, %d seats): %v", c.ID, c.Sort, c.Day, c.Seats, err)
				if err == nil {
					w.acknowledged(c.book)
				}
				if err == nil || !c.insist && try > 1 || try > 200 {
					break
				}
				_ = worldtest.Pause(ctx, 5*time.Second)
			}
		}
		if garbage && i == 2 {
			if err := w.Store.Queue("commands").Send(ctx, []storage.Message{{Body: []byte("not a message")}}); err != nil {
				w.Fail("garbage: %v", err)
			}
		}
	}
}

func (w *world) trying(b book) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[b.ID+b.Sort] = b
}

func (w *world) acknowledged(b book) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[b.ID+b.Sort] = true
}

// operate is the operator. First they repair the causes of failures. Then they look through the poison queue:
// messages whose cause is repaired are sent back, and every other one of the rest is discarded.
func (w *world) operate(ctx context.Context) {
	w.succeeds.Store(true)
	p := w.newClient("operator")
	if _, err := p.register(); err != nil {
		w.Fail("operator: %v", err)
		return
	}
	poison := poison.At(p.channels, "commands")
	n := 0
	for entry, err := range poison.List(ctx) {
		if err != nil {
			w.Fail("operator: %v", err)
			return
		}
		switch sort := w.sortOf(entry); sort {
		case stubborn:
			err = poison.Retry(ctx, entry.Key)
		case bad:
			if n++; n%2 == 0 {
				err = poison.DiscardIf(ctx, entry.Key, entry.ETag)
				w.mu.Lock()
				w.discarded[entry.ID] = true
				w.mu.Unlock()
			}
		}
		w.Tell("operator sees %s (%s): %v", entry.ID, entry.Reason, err)
		if err != nil {
			w.Fail("operator: %v", err)
		}
	}
}

// sortOf returns how the command of a poison entry behaves.
func (w *world) sortOf(entry poison.Entry) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sort := range []string{stubborn, bad, deadly} {
		if _, ok := w.sent[entry.ID+sort]; ok {
			return sort
		}
	}
	return ""
}

// drain lets virtual time pass until no queue holds a message.
func (w *world) drain(ctx context.Context) {
	for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); _ = worldtest.Pause(ctx, 20*time.Second) {
		now, later, err := w.Left(ctx, queues())
		if err != nil {
			w.Fail("stats: %v", err)
		}
		if err != nil || now+later == 0 {
			return
		}
	}
}

func queues() []string {
	return []string{"commands", "bills", "months", "left", "billing", "notes", "orders", "shelves", "answers", "counts"}
}
