package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// Messages that wait in hand are renewed too. A message that can't be renewed is left to the worker that has it now,
// and not handled on a delivery that is over.
func TestWaitingMessages(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		name := "renewed"
		if !renewed {
			name = "lost"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				var here, there atomic.Int64
				refuse := storagetest.NewLink(s)
				deaf := storagetest.NewLink(refuse.Store)
				l := newLab(t, deaf.Store, func(_ context.Context, j job) error {
					switch j.Name {
					case "slow":
						time.Sleep(20 * time.Second)
					case "waiting":
						here.Add(1)
					}
					return nil
				})
				cfg := worker.Config{Concurrency: 1, MaxInHand: 64, Visibility: 6 * time.Second}
				stop := l.Start(cfg)
				l.sendJobs(t, make([]job, 500)...) // so that the worker learns to hold more than it runs
				l.empty(t, 20*time.Millisecond)
				if !renewed {
					refuse.Cut("extend")
				}
				l.sendJobs(t, job{Name: "slow"}, job{Name: "waiting"}, job{Name: "waiting"}, job{Name: "waiting"}, job{Name: "waiting"})
				time.Sleep(1100 * time.Millisecond)
				held := int64(4)
				if st := stats(t, s, "jobs"); st.InFlight != 5 {
					t.Fatalf("the worker holds %d of 5; the test needs all", st.InFlight)
				}
				deaf.Cut("receive")
				next := newLab(t, s, func(_ context.Context, j job) error {
					if j.Name == "waiting" {
						there.Add(1)
					}
					return nil
				})
				next.Start(cfg)
				time.Sleep(30 * time.Second)
				next.empty(t, time.Second)
				deaf.Restore()
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				want := [2]int64{held, 0}
				if !renewed {
					want = [2]int64{0, held}
				}
				if got := [2]int64{here.Load(), there.Load()}; got != want {
					t.Errorf("handled here and there: got %v, want %v", got, want)
				}
			})
		})
	}
}

// The same holds for messages that wait for a fold of their document.
func TestWaitingForAFold(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut("extend")
		w := newWorld(t, link.Store)
		decide := w.decide
		slow := true
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			if slow {
				slow = false
				time.Sleep(20 * time.Second)
			}
			return decide(a, c)
		}
		w.Start(worker.Config{Visibility: 6 * time.Second})
		for range 5 {
			worldtest.Send(w.World, Add{To: "a", Amount: 1})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		link.Restore()
		w.empty(t, time.Second)
		if d, err := w.Accounts.Get(t.Context(), "a", ""); err != nil || d.Value != (Account{Balance: 5, Count: 5}) || d.Version != 5 {
			t.Errorf("got %+v, %v; want each message once", d, err)
		}
		if v, _, err := w.Totals.GetFresh(t.Context(), "a"); err != nil || v.Count != 5 {
			t.Errorf("view: got %+v, %v", v, err)
		}
		worldtest.Want(t, "poisoned", len(w.Poisoned("accounts")), 0)
	})
}

// A doorbell that is blocked is no worse than none: a worker that finds messages without a ring goes on looking.
func TestBlockedRings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.WithRings(patient(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), 30*time.Second), make(chan struct{}))
		l := newLab(t, s, func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		time.Sleep(time.Minute) // idle: the worker looks seldom now
		sent := map[string]time.Time{}
		const jobs = 300
		for i := range jobs { // ten a second
			name := fmt.Sprint(i)
			sent[name] = time.Now()
			l.sendJobs(t, job{Name: name})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		late := 0
		for _, c := range l.calls {
			d := c.at.Sub(sent[c.job.Name])
			if d > 30*time.Second {
				t.Errorf("%s waited %v, longer than the ceiling", c.job.Name, d)
			}
			if c.at.Sub(l.calls[0].at) > 0 && d > time.Second {
				late++
			}
		}
		if len(l.calls) != jobs || late > 0 {
			t.Errorf("%d of %d were handled, %d of them late although others had just been found", len(l.calls), jobs, late)
		}
	})
}

// Each queue is looked at after its own interval, or else after the store's.
func TestPollIntervalOfAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			interval    time.Duration
			least, most int // looks in an idle hour
		}{
			{0, 120, 160}, // the store's 30 seconds
			{5 * time.Minute, 12, 16},
			{2 * time.Second, 1800, 2400},
		} {
			var calls storagetest.Calls
			l := newLab(t, storagetest.Intercept(patient(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), 30*time.Second), calls.Hook), func(context.Context, job) error { return nil })
			stop := l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {PollInterval: c.interval}}})
			time.Sleep(10 * time.Minute)
			before := calls.Count("receive")
			time.Sleep(time.Hour)
			if got := calls.Count("receive") - before; got < c.least || got > c.most {
				t.Errorf("%v: %d looks in an idle hour; want %d to %d", c.interval, got, c.least, c.most)
			}
			stop()
		}
	})
}
