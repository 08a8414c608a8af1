package signal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
)

// Law: at most once. The answer to a signal is lost, and it is not sent again.
func TestAtMostOnce(t *testing.T) {
	t.Parallel()
	b := &brokenStore{Store: open(t).Driver(), answer: storage.ErrUnavailable}
	s := storage.New(b)
	l := listen(t, s, ">")
	if ok, err := signal.One(t.Context(), s, name, nil); ok || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, %v; want an error with the name", ok, err)
	}
	if n, err := signal.Broadcast(t.Context(), s, name, nil); n != 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got %v, %v; want an error", n, err)
	}
	if got := drain(t, l); len(got) != 2 || b.tells != 2 {
		t.Errorf("two signals were heard %d times, and told %d times", len(got), b.tells)
	}
}

// Law: nothing is stored. A signal before the wait is not heard, however long the wait is.
func TestNothingIsStored(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		one(t, s, name, "before", false)
		broadcast(t, s, name, "before", 0)
		l := listen(t, s, ">")
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if got, err := l.Any(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("heard %q, %v", got.Data, err)
		}
		broadcast(t, s, name, "after", 1)
		if got := drain(t, l); !slices.Equal(got, []string{"after"}) {
			t.Errorf("heard %q", got)
		}
	})
}

// Law: ready before it returns.
func TestReadyBeforeItReturns(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 200 {
		l := listen(t, s, "orders.>")
		one(t, s, name, fmt.Sprint(i), true)
		if got := drain(t, l); !slices.Equal(got, []string{fmt.Sprint(i)}) {
			t.Fatalf("heard %q, want %d", got, i)
		}
		l.Close()
		one(t, s, name, "nobody", false)
	}
}

// Law: one is exactly one of those waiting. Some listeners come and go while signals are sent, and one stays and never
// gets full: each signal is taken, and heard once.
func TestOneIsExactlyOne(t *testing.T) {
	t.Parallel()
	const senders, each, guests = 4, 250, 8
	s := open(t)
	var (
		mu    sync.Mutex
		heard = map[string]int{}
		under = make(chan struct{}, 60) // a place for each signal that is sent and not yet heard
	)
	hear := func(ctx context.Context, l *signal.Listener) bool {
		got, err := l.Any(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, signal.ErrClosed) {
				t.Error(err)
			}
			return false
		}
		<-under
		mu.Lock()
		heard[string(got.Data)]++
		mu.Unlock()
		return true
	}
	visits, end := context.WithCancel(t.Context())
	stays := listen(t, s, name)
	var all, sending sync.WaitGroup
	all.Go(func() {
		for hear(t.Context(), stays) {
		}
	})
	for i := range uint64(guests) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(i, 1))
			for visits.Err() == nil {
				l := listen(t, s, "orders.*.paid")
				for range 1 + r.IntN(3) {
					hear(visits, l)
				}
				l.Close()
				for hear(t.Context(), l) { // what came meanwhile
				}
			}
		})
	}
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				under <- struct{}{}
				one(t, s, name, fmt.Sprint(i, "-", k), true)
			}
		})
	}
	sending.Wait()
	end()
	stays.Close()
	all.Wait()
	for data, n := range heard {
		if n != 1 {
			t.Errorf("signal %s was heard %d times", data, n)
		}
	}
	if len(heard) != senders*each {
		t.Errorf("%d signals were heard, want %d", len(heard), senders*each)
	}
}

// Never two, and never none while somebody waits: whichever of the listeners are full, or want other signals.
func TestOneFindsWhoeverWaits(t *testing.T) {
	t.Parallel()
	s := open(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var ls []*signal.Listener
		waiting := 0
		for range r.IntN(12) {
			switch r.IntN(3) {
			case 0:
				ls = append(ls, listen(t, s, "orders.*.paid"))
				waiting++
			case 1:
				ls = append(ls, listen(t, s, "orders.*", "stop"))
			case 2:
				l := listen(t, s, name)
				l.Close()
			}
		}
		one(t, s, name, "it", waiting > 0)
		got := 0
		for _, l := range ls {
			got += len(drain(t, l))
			l.Close()
		}
		if got != min(waiting, 1) {
			t.Errorf("%d heard it of %d that waited", got, waiting)
		}
	}
}

// The choice is fair. With equal chances the statistic is above 60 once in a billion runs (chi-square, 9 degrees of
// freedom).
func TestOneIsUniform(t *testing.T) {
	t.Parallel()
	const listeners, signals = 10, 2000
	s := open(t)
	var ls []*signal.Listener
	for range listeners {
		ls = append(ls, listen(t, s, name))
	}
	counts := make([]int, listeners)
	for range signals {
		one(t, s, name, "", true)
		for i, l := range ls {
			counts[i] += len(drain(t, l))
		}
	}
	chi, want := 0.0, float64(signals)/listeners
	for _, n := range counts {
		chi += (float64(n) - want) * (float64(n) - want) / want
	}
	if chi > 60 {
		t.Errorf("the listeners heard %d: chi-square %.1f", counts, chi)
	}
}

// Law: a full listener is counted out.
func TestAFullListenerIsCountedOut(t *testing.T) {
	t.Parallel()
	s := open(t)
	full := listen(t, s, ">")
	for range 64 {
		broadcast(t, s, name, "first", 1)
	}
	broadcast(t, s, name, "", 0)
	one(t, s, name, "", false)
	other := listen(t, s, ">")
	broadcast(t, s, name, "other", 1)
	for range 20 {
		one(t, s, name, "other", true)
	}
	if got := drain(t, other); len(got) != 21 {
		t.Errorf("the other listener heard %d, want 21", len(got))
	}
	if _, ok, err := full.Try(); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	broadcast(t, s, name, "room", 2)
	if got := drain(t, full); len(got) != 64 || got[63] != "room" {
		t.Errorf("heard %d: %q", len(got), got)
	}
}

// Law: the end of ctx loses nothing. Contexts end while signals come: each signal that was taken is returned.
func TestTheEndOfTheContextLosesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := listen(t, s, ">")
	var want, got []string
	for i := range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		var race sync.WaitGroup
		race.Go(cancel)
		race.Go(func() { one(t, s, name, fmt.Sprint(i), true) })
		want = append(want, fmt.Sprint(i))
		if heard, err := l.Any(ctx); err == nil {
			got = append(got, string(heard.Data))
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		race.Wait()
		if len(want)-len(got) > 60 {
			got = append(got, drain(t, l)...)
		}
	}
	got = append(got, drain(t, l)...)
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want each of %d in its order", got, len(want))
	}

	// It also holds for a wait that closes its listener.
	taken, heard := 0, 0
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		var race sync.WaitGroup
		race.Go(cancel)
		race.Go(func() {
			if n, err := signal.Broadcast(t.Context(), s, "stop", nil); err == nil {
				taken += n
			}
		})
		if _, err := signal.Any(ctx, s, "stop"); err == nil {
			heard++
		}
		race.Wait()
		taken -= len(drain(t, l))
	}
	if taken != heard {
		t.Errorf("%d were taken, and %d were heard", taken, heard)
	}
}

// Law: a lost connection is an error, and not silence. Signals that were taken before come first.
func TestALostConnectionIsAnError(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, inner *storage.Store) {
		b := &brokenStore{Store: inner.Driver()}
		s := storage.New(b)
		l := listen(t, s, ">", "stop")
		waiting := make(chan error)
		short := func(wait func() error) {
			go func() { waiting <- wait() }()
		}
		short(func() error { _, err := l.All(t.Context()); return err })
		short(func() error { _, err := signal.Any(t.Context(), s, "a"); return err })
		short(func() error { _, err := signal.All(t.Context(), s, "a", "b"); return err })
		synctest.Wait()
		broadcast(t, s, name, "before", 1)
		b.cut()
		for range 3 {
			select {
			case err := <-waiting:
				if !errors.Is(err, signal.ErrLost) {
					t.Errorf("a wait ended with %v", err)
				}
			case <-time.After(time.Hour):
				t.Fatal("a wait doesn't end")
			}
		}
		broadcast(t, s, name, "after", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := l.Any(ctx); string(got.Data) != "before" || err != nil {
			t.Errorf("heard %q, %v", got.Data, err)
		}
		for range 2 {
			if _, err := l.Any(ctx); !errors.Is(err, signal.ErrLost) {
				t.Errorf("Any: %v", err)
			}
			if _, err := l.All(ctx); !errors.Is(err, signal.ErrLost) {
				t.Errorf("All: %v", err)
			}
			if _, ok, err := l.Try(); ok || !errors.Is(err, signal.ErrLost) {
				t.Errorf("Try: %v, %v", ok, err)
			}
			l.Close()
		}
	})
}

// A store that is closed hears nothing more either.
func TestAClosedStoreLosesItsListeners(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, ">")
		broadcast(t, s, name, "before", 1)
		if got, err := l.Any(t.Context()); string(got.Data) != "before" || err != nil {
			t.Errorf("heard %q, %v", got.Data, err)
		}
		ended := make(chan error)
		go func() { _, err := l.Any(t.Context()); ended <- err }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, signal.ErrLost) {
			t.Errorf("a wait ended with %v", err)
		}
		if _, err := signal.Listen(t.Context(), s, ">"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Listen: %v", err)
		}
		if _, err := signal.One(t.Context(), s, name, nil); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("One: %v", err)
		}
	})
}
