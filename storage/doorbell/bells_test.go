package doorbell

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// ringing runs f with bells under virtual time. sent returns when each round was sent, since the last call.
func ringing(t *testing.T, f func(t *testing.T, b *bells, sent func() []time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBells(clock{time.Now()})
		var mu sync.Mutex
		var rounds []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			b.run(ctx, func(due) {
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, b.now())
			})
		})
		f(t, b, func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { rounds = nil }()
			return rounds
		})
		b.close()
		cancel()
		all.Wait()
	})
}

// rings collects a channel's rings during d, and returns when they came.
func rings(b *bells, ring <-chan struct{}, d time.Duration) []time.Duration {
	var list []time.Duration
	end := time.After(d)
	for {
		select {
		case <-ring:
			list = append(list, b.now())
		case <-end:
			return list
		}
	}
}

func TestRoundsAreFolded(t *testing.T) {
	t.Parallel()
	ringing(t, func(t *testing.T, b *bells, sent func() []time.Duration) {
		for range 1000 { // a second
			b.sent("queue", 0)
			time.Sleep(time.Millisecond)
		}
		last := b.now() - time.Millisecond
		time.Sleep(time.Minute)
		got := sent()
		if len(got) < 40 || len(got) > 51 {
			t.Errorf("%d rounds sent for sends during a second; want one in %v", len(got), pause)
		}
		if got[0] != 0 {
			t.Errorf("the first round was sent after %v; want at once", got[0])
		}
		if end := got[len(got)-1]; end < last || end > last+pause {
			t.Errorf("the last send was at %v, the last round at %v", last, end)
		}
		if len(b.queues) != 0 {
			t.Errorf("%d queues are remembered that nobody needs", len(b.queues))
		}
	})
}

func TestReceivedRingsAreFolded(t *testing.T) {
	t.Parallel()
	ringing(t, func(t *testing.T, b *bells, sent func() []time.Duration) {
		ring, stop := b.watch("queue")
		defer stop()
		go func() {
			for range 1000 {
				if !b.ringForOther("queue") {
					t.Error("a ring for a queue that is waited for counts as nobody's")
				}
				time.Sleep(time.Millisecond)
			}
		}()
		got := rings(b, ring, time.Minute)
		if len(got) < 40 || len(got) > 51 || got[0] != 0 {
			t.Errorf("%d rings for those received during a second, the first after %v; want one at once and then one in %v", len(got), got[0], pause)
		}
		if end := got[len(got)-1]; end < 999*time.Millisecond {
			t.Errorf("the last ring was received at 999ms, the last passed on at %v", end)
		}
		if b.ringForOther("other") {
			t.Error("a ring for a queue that nobody waits for was heeded")
		}
		if got := sent(); len(got) != 0 {
			t.Errorf("rings of others were passed on to others at %v", got)
		}
	})
}

func TestDelaysRing(t *testing.T) {
	t.Parallel()
	ringing(t, func(t *testing.T, b *bells, sent func() []time.Duration) {
		ring, stop := b.watch("queue")
		defer stop()
		b.sent("queue", time.Hour)
		b.sent("queue", 1500*time.Millisecond) // neither may replace the other
		b.sent("queue", 1600*time.Millisecond)
		want := []time.Duration{2 * time.Second, 3 * time.Second, time.Hour, time.Hour + time.Second}
		if got := rings(b, ring, 2*time.Hour); !slices.Equal(got, want) {
			t.Errorf("rang at %v; want %v: rounded up to seconds, and once more a second later", got, want)
		}
		if got := sent(); !slices.Equal(got, want) {
			t.Errorf("rang others at %v; want %v", got, want)
		}
	})
}

// The end of a visibility doesn't ring, and bells keep nothing about messages in hand.
func TestVisibilityRingsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), loopback(), usualPace())
		b := s.own.bells
		ring, stop := b.watch("queue")
		defer stop()
		send(t, s, "queue")
		<-ring
		q := s.Queue("queue")
		got, err := q.Receive(t.Context(), 1, time.Second)
		if err != nil || len(got) != 1 {
			t.Fatalf("received %d, %v", len(got), err)
		}
		if _, err := q.Extend(t.Context(), got[0].Receipt, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if at := rings(b, ring, time.Minute); len(at) != 0 {
			t.Errorf("rang at %v", at)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.queues["queue"].alarms); n != 0 {
			t.Errorf("%d alarms", n)
		}
	})
}

func TestAlarmsAreBounded(t *testing.T) {
	t.Parallel()
	ringing(t, func(t *testing.T, b *bells, sent func() []time.Duration) {
		ring, stop := b.watch("queue")
		defer stop()
		for i := range 2 * maxAlarms {
			b.sent("queue", time.Hour-time.Duration(i)*time.Second)
		}
		b.sent("queue", storage.MaxDelay)
		b.mu.Lock()
		alarms := len(b.queues["queue"].alarms)
		b.mu.Unlock()
		if alarms != maxAlarms {
			t.Errorf("%d alarms; want %d", alarms, maxAlarms)
		}
		got := rings(b, ring, time.Hour)
		if want := time.Hour - (2*maxAlarms-1)*time.Second; len(got) == 0 || got[0] != want {
			t.Errorf("rang first at %v; want the earliest alarms to be kept, from %v", got, want)
		}
	})
}

func TestAllWatchersAreRung(t *testing.T) {
	t.Parallel()
	ringing(t, func(t *testing.T, b *bells, sent func() []time.Duration) {
		first, stopFirst := b.watch("queue")
		second, stopSecond := b.watch("queue")
		b.sent("other", 0)
		b.sent("queue", 0)
		b.sent("queue", 0)
		if len(first) != 1 || len(second) != 1 {
			t.Errorf("two watchers have %d and %d rings; want 1 each", len(first), len(second))
		}
		<-second
		stopSecond()
		b.sent("queue", 0)
		if len(second) != 0 {
			t.Error("a ring after stop")
		}
		if got, want := b.watched(), []string{"queue"}; !slices.Equal(got, want) {
			t.Errorf("watched %q; want %q", got, want)
		}
		stopFirst()
		stopFirst()
		b.close()
		if ring, stop := b.watch("queue"); ring == nil || stop == nil || len(b.watched()) != 0 {
			t.Error("a closed store watches")
		} else {
			stop()
		}
	})
}

// TestNothingIsForgotten checks that the end sends the rings that a pause has held back.
func TestNothingIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBells(clock{time.Now()})
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan string, 10)
		var all sync.WaitGroup
		all.Go(func() { b.run(ctx, func(x due) { sent <- fmt.Sprint(x.queue, b.now()) }) })
		b.sent("queue", 0)
		synctest.Wait()
		b.sent("queue", 0)
		synctest.Wait()
		b.close()
		cancel()
		all.Wait()
		if len(sent) != 2 || <-sent != "queue0s" || <-sent != "queue0s" {
			t.Errorf("the second of two sends just before the end was not sent")
		}
	})
}
