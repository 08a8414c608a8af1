package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestAnOpeningBeforeWaitIsNotMissed(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		open(t, gate.At(s, name))
		time.Sleep(time.Hour)
		var calls storagetest.Calls
		began := time.Now()
		must(t, seldom(t, storagetest.Intercept(s, calls.Hook)).Wait(t.Context()))
		if took := time.Since(began); took > 0 || calls.Count() != 1 {
			t.Errorf("Wait for an open gate took %v and %d calls; want one read", took, calls.Count())
		}
	})
}

// The gate is opened during any call that Wait makes while it begins, or just before it.
func TestAnOpeningWhileWaitBeginsIsNotMissed(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			t.Parallel()
			n := int64(0)
			for again := true; again; {
				n++
				agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
					var hit atomic.Bool
					began := time.Now()
					other := gate.At(s, name)
					mine := seldom(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
						if op.Seq != n || time.Since(began) > 0 {
							return do()
						}
						hit.Store(true)
						if moment == storagetest.BeforeEffect {
							open(t, other)
							return do()
						}
						err := do()
						open(t, other)
						return err
					}))
					var w waiters
					w.wait(t, mine)
					time.Sleep(time.Second)
					if again = hit.Load(); again {
						w.want(t, began, began)
						return
					}
					open(t, other)
					w.want(t, time.Now(), time.Now())
				})
			}
			if n < 4 {
				t.Errorf("Wait begins with %d calls; want a read, a call that listens, and another read", n-1)
			}
		})
	}
}

func TestAnOpeningWhileWaitingIsNotMissed(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var w waiters
		for range 8 {
			w.wait(t, seldom(t, s))
		}
		time.Sleep(time.Hour)
		if n := w.gone(); n > 0 {
			t.Errorf("%d went while the gate was closed", n)
		}
		open(t, gate.At(s, name))
		w.want(t, time.Now(), time.Now())
	})
}

// However the publication fails, those that wait see the opening with their next look.
func TestAnOpeningThatNobodyHearsIsNotMissed(t *testing.T) {
	t.Parallel()
	fail := func(call string) func(s *storage.Store) *storage.Store {
		return func(s *storage.Store) *storage.Store {
			l := storagetest.NewLink(s)
			l.Cut(call)
			return l.Store
		}
	}
	for way, wrap := range map[string]func(*storage.Store) *storage.Store{
		"the store does not ring": storagetest.Plain, "the publication is lost": silent,
		"nobody can listen": fail("subscribe"), "nobody can publish": fail("publish"),
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				s = wrap(s)
				var w waiters
				for range 8 {
					w.wait(t, gate.At(s, name))
				}
				time.Sleep(time.Minute)
				open(t, gate.At(s, name))
				w.want(t, time.Now(), time.Now().Add(poll))
			})
		})
	}
}

// An attempt to listen that hangs holds up no look, neither at an announced moment nor with each poll.
func TestAHangingHearHoldsUpNoLook(t *testing.T) {
	t.Parallel()
	for _, announced := range []bool{true, false} {
		for _, after := range []time.Duration{1500 * time.Millisecond, 5 * time.Second, 36 * time.Second} {
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				tries := 0
				hangs := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
					if op.Name != "subscribe" {
						return do()
					}
					tries++
					<-ctx.Done()
					return context.Cause(ctx)
				})
				at, late := time.Now().Add(after), time.Second
				if announced {
					announce(t, gate.At(s, name), at)
				}
				var w waiters
				w.wait(t, gate.At(hangs, name))
				if !announced {
					time.Sleep(after)
					open(t, gate.At(s, name))
					late = poll
				}
				w.want(t, at, at.Add(late))
				if want := 1 + int(after/(30*time.Second)); tries != want {
					t.Errorf("tried to listen %d times in %v; want %d", tries, after, want)
				}
			})
		}
	}
}

// The gate is open for no time at all. Those that waited go, and those that come later don't.
func TestAnOpeningThatWasClosedAtOnceIsNotMissed(t *testing.T) {
	t.Parallel()
	for way, wrap := range map[string]func(*storage.Store) *storage.Store{"told": func(s *storage.Store) *storage.Store { return s }, "not told": silent} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				s = wrap(s)
				g := gate.At(s, name)
				open(t, g)
				shut(t, g)
				var w waiters
				for range 8 {
					w.wait(t, g)
				}
				time.Sleep(time.Minute)
				if n := w.gone(); n > 0 {
					t.Errorf("%d went for an opening before their time", n)
				}
				began := time.Now()
				open(t, g)
				shut(t, g)
				w.want(t, began, began.Add(poll))
				wantClosed(t, g)
			})
		})
	}
}

// Any ring, even of the gate's own name, only makes those that wait read the gate.
func TestASpuriousRingLetsNobodyThrough(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls storagetest.Calls
		ended := make(chan error)
		go func() { ended <- seldom(t, storagetest.Intercept(s, calls.Hook)).Wait(ctx) }()
		time.Sleep(time.Second)
		for data, want := range map[string]int{name: 1, name + "x": 0, "": 0, "\xff": 0} {
			before := calls.Count()
			for range 5 {
				heard, err := s.Publish(ctx, "gates", []byte(data), false)
				must(t, err)
				if heard != want {
					t.Errorf("%d took %q, want %d", heard, data, want)
				}
				s.Ring("gates")
				synctest.Wait()
			}
			if n := calls.Count() - before; n != 5*want {
				t.Errorf("%q told 5 times: %d calls, want %d", data, n, 5*want)
			}
		}
		select {
		case err := <-ended:
			t.Errorf("Wait ended with %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait ended with %v", err)
		}
	})
}

func TestClosingDoesNotRecallThoseThatHaveGone(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := gate.At(s, name)
		open(t, g)
		must(t, g.Wait(t.Context()))
		shut(t, g)
		wantClosed(t, g) // only those that come now are held
		open(t, g)
		must(t, g.Wait(t.Context()))
	})
}

// A wait outlasts any trouble of the store, and says so once.
func TestAStoreThatFailsEndsNoWait(t *testing.T) {
	t.Parallel()
	for way, fail := range map[string]func(ctx context.Context, op storagetest.Op) error{
		"refuses":   func(_ context.Context, op storagetest.Op) error { return op.Fail(storage.ErrUnavailable) },
		"throttles": func(_ context.Context, op storagetest.Op) error { return op.Fail(storage.ErrThrottled) },
		"hangs":     func(ctx context.Context, _ storagetest.Op) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				began := time.Now()
				log := newLog()
				g, err := gate.New(storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
					if time.Since(began) < time.Hour {
						return fail(ctx, op)
					}
					return do()
				}), name, gate.Config{Logger: log.logger()})
				must(t, err)
				open(t, gate.At(s, name))
				must(t, g.Wait(t.Context()))
				if took := time.Since(began); took > time.Hour+poll+10*time.Second {
					t.Errorf("released %v after the store came back", took-time.Hour)
				}
				for line, want := range map[string]int{"level=WARN msg=\"can't look at a gate; trying again": 1, "level=INFO msg=\"can look at a gate again": 1, "level=WARN msg=\"can't be told of changes of a gate": 1} {
					if n := log.count(line); n != want {
						t.Errorf("%d lines %q, want %d", n, line, want)
					}
				}
			})
		})
	}
}

// A hearing that is lost is replaced with the next look, and what was told meanwhile is seen then.
func TestALostHearingIsReplaced(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		f := &fragile{Store: s.Driver()}
		var w waiters
		w.wait(t, gate.At(storage.New(f), name))
		for n := 1; n <= 3; n++ {
			time.Sleep(time.Minute)
			if heard := f.lose(); heard != n {
				t.Errorf("listened %d times, want %d", heard, n)
			}
		}
		time.Sleep(poll)
		open(t, gate.At(s, name))
		w.want(t, time.Now(), time.Now())
	})
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) { // it is lost again and again
		f := &fragile{Store: s.Driver(), always: true}
		wantClosed(t, gate.At(storage.New(f), name))
		if n := f.lose(); n > 601 { // two seconds at least between two looks
			t.Errorf("listened %d times in 20 minutes", n)
		}
	})
}

// The package's comment promises these costs.
func TestCost(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		ours := storagetest.Intercept(s, calls.Hook)
		count := func(what string, names []string, least, most int, do func()) {
			t.Helper()
			before := calls.Count(names...)
			do()
			if n := calls.Count(names...) - before; n < least || n > most {
				t.Errorf("%s: %d calls, want %d to %d", what, n, least, most)
			}
		}
		g := gate.At(ours, name)
		count("20 minutes at a closed gate", nil, 520, 550, func() { wantClosed(t, g) })
		count("open", nil, 3, 3, func() { open(t, g) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		count("an hour at an open gate", nil, 125, 145, func() {
			for _, err := range g.Watch(ctx) {
				must(t, err)
			}
		})
		count("close", nil, 3, 3, func() { shut(t, g) })
		at := time.Now().Add(time.Minute)
		announce(t, g, at)
		var w waiters
		count("writes of 20 at an announced moment", []string{"put blob"}, 1, 20, func() {
			for range 20 {
				w.wait(t, g)
			}
			w.want(t, at, at)
		})
		if n := calls.Count("publish"); n != 4 {
			t.Errorf("told %d times, want 4: each change once", n)
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := seldom(t, s)
		at := time.Now().Add(5 * time.Hour)
		go func() {
			for _, change := range []func(){
				func() { open(t, g) }, func() { open(t, g) }, func() { shut(t, g) }, func() { announce(t, g, at) }} {
				time.Sleep(time.Hour)
				change()
			}
		}()
		var got string
		for st, err := range g.Watch(t.Context()) {
			must(t, err)
			got += fmt.Sprintf("%d: open %v, opens at %v, by %q, why %q, openings %d\n", st.Epoch, st.Open, !st.OpensAt.IsZero(), st.By, st.Why, st.Openings)
			if st.Epoch == 3 {
				break
			}
		}
		want := `0: open false, opens at false, by "", why "", openings 0
1: open true, opens at false, by "ada", why "", openings 1
2: open false, opens at false, by "ada", why "", openings 1
3: open false, opens at true, by "ada", why "the season begins", openings 1
`
		if got != want {
			t.Errorf("saw\n%swant\n%s", got, want)
		}
		if heard, err := s.Publish(t.Context(), "gates", []byte(name), false); heard != 0 || err != nil {
			t.Errorf("after the loop %d listen, %v; want none", heard, err)
		}
	})
}
