package ids_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The store fails while numbers are left: no caller notices. After the last number callers get the store's error, and
// numbers again soon after the store works again.
func TestTheStoreFails(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		link := storagetest.NewLink(storagetest.Intercept(s, calls.Hook))
		var tried atomic.Int64
		q := open(t, storagetest.Intercept(link.Store, func(_ context.Context, _ storagetest.Op, do func() error) error { tried.Add(1); return do() }),
			ids.Config{}.AtLeast(100))
		takeAll(t, q, 1, 50)
		link.Cut()
		for i := range int64(50) {
			takeAll(t, q, 51+i, 1)
			time.Sleep(time.Second)
		}
		for range 1000 {
			n, err := q.Next(t.Context())
			if n != 0 || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), name) {
				t.Fatalf("got %d, %v", n, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		// While numbers are left: at 20, 16, 8, 4, 2, 1 and 0. After that for 10 s, 3 times in a bit more than a second.
		if n := tried.Load(); n < 2+7*3+5*3 || n > 2+7*3+15*3 {
			t.Errorf("the store was asked %d times", n)
		}
		link.Restore()
		time.Sleep(time.Second)
		takeAll(t, q, 101, 1)
		finish(t, q)
		wantNext(t, s, 102)
	})
}

// The answer of a reservation is lost: its range is never used, whether it was written or not.
func TestALostAnswerLosesTheRange(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); n <= 6; n++ {
			t.Run(fmt.Sprintf("%s/%d", moment, n), func(t *testing.T) {
				t.Parallel()
				agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
					var seen seen
					wrote := false // by the call that failed
					q := open(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
						if op.Seq != n {
							return do()
						}
						if moment == storagetest.AfterEffect {
							wrote = do() == nil && op.Name == "put blob"
						}
						return op.Fail(storage.ErrUnavailable)
					}), ids.Config{Most: 10})
					for range 30 {
						seen.add(t, take(t, q))
						time.Sleep(time.Second)
					}
					finish(t, q)
					want := int64(31)
					if wrote {
						want += 10
					}
					wantNext(t, s, want)
				})
			})
		}
	}
}

// Only a caller that has no number waits, its context ends its wait, and others go on waiting.
func TestTheContextEndsAWait(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		q := open(t, storagetest.Intercept(s, func(_ context.Context, _ storagetest.Op, do func() error) error {
			time.Sleep(2 * time.Second)
			return do()
		}), ids.Config{})
		end := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, end)
		defer cancel()
		var other sync.WaitGroup
		other.Go(func() { takeAll(t, q, 1, 1) })
		begin := time.Now()
		if n, err := q.Next(ctx); n != 0 || !errors.Is(err, end) || time.Since(begin) != time.Second {
			t.Errorf("got %d, %v after %v", n, err, time.Since(begin))
		}
		other.Wait()
		if n, err := q.Next(ctx); err != nil || n != 2 { // a number is left, so nothing waits
			t.Errorf("got %d, %v", n, err)
		}
		finish(t, q)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		reg := prometheus.NewRegistry()
		q := open(t, link.Store, ids.Config{Metrics: reg})
		takeAll(t, q, 1, 5)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		link.Cut()
		if err := q.Close(ctx); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), name) {
			t.Errorf("closed with %v", err)
		}
		wantRefusal(t, q, ids.ErrClosed, "closed")
		link.Restore()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := q.Close(ctx); err != nil { // although ctx has ended
					t.Error(err)
				}
			})
		}
		both.Wait()
		wantNext(t, s, 6)
		wantRefusal(t, q, ids.ErrClosed, "closed")

		unused := open(t, s, ids.Config{Metrics: reg})
		finish(t, unused)
		wantRefusal(t, unused, ids.ErrClosed, "closed")
	})
}

// Close ends in time while a fetch hangs, and callers that wait get ErrClosed at once. Numbers that were in hand are
// given back.
func TestCloseWhileAFetchHangs(t *testing.T) {
	t.Parallel()
	for _, obeys := range []bool{true, false} {
		agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
			var hanging atomic.Bool
			over := make(chan struct{})
			q := open(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if op.Seq == 3 {
					hanging.Store(true)
					if obeys {
						<-ctx.Done()
					} else {
						<-over
					}
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			}), ids.Config{})
			takeAll(t, q, 1, 9) // so the next range is being fetched
			time.Sleep(time.Second)
			begin := time.Now()
			finish(t, q)
			if took := time.Since(begin); took > 5*time.Second || !hanging.Load() {
				t.Errorf("closed in %v, hanging %v", took, hanging.Load())
			}
			close(over)
			time.Sleep(time.Minute)
			wantNext(t, s, 10)
		})
	}
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		q := open(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, _ func() error) error {
			<-ctx.Done()
			return op.Fail(storage.ErrUnavailable)
		}), ids.Config{})
		var caller sync.WaitGroup
		caller.Go(func() {
			begin := time.Now()
			if _, err := q.Next(t.Context()); !errors.Is(err, ids.ErrClosed) || time.Since(begin) != time.Second {
				t.Errorf("the wait ended with %v after %v", err, time.Since(begin))
			}
		})
		time.Sleep(time.Second)
		finish(t, q)
		caller.Wait()
	})
}

// Callers take numbers while the Sequence is closed: none of those that were given back is given out.
func TestCloseAmongCallers(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var seen seen
		for round := range 50 {
			q := open(t, s, ids.Config{}.AtLeast(1+2*int64(round)))
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for {
						n, err := q.Next(t.Context())
						if err != nil {
							if !errors.Is(err, ids.ErrClosed) {
								t.Error(err)
							}
							return
						}
						seen.add(t, n)
						if n%8 == 0 {
							time.Sleep(time.Microsecond)
						}
					}
				})
			}
			time.Sleep(time.Duration(1+round) * time.Microsecond)
			finish(t, q)
			callers.Wait()
		}
		if n := int64(len(seen.numbers)); n < 1000 || next(t, s) != n+1 {
			t.Errorf("%d numbers were given out, and the counter is at %d", n, next(t, s))
		}
	})
}

// Nodes take numbers while calls succeed or fail, are slow, or take effect late. Some nodes die, some close, and an
// operator raises the counter now and then. No number comes twice, and each node's numbers grow.
func TestWeather(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var (
					seen        seen
					nodes, late sync.WaitGroup
				)
				for i := range uint64(8) {
					nodes.Go(func() {
						r := rand.New(rand.NewPCG(seed, i))
						bad := weather(s, rand.New(rand.NewPCG(i, seed)), &late)
						for range 6 {
							live(t, s, bad, r, &seen)
						}
					})
				}
				nodes.Wait()
				late.Wait()
				if n := len(seen.numbers); n < 1000 {
					t.Errorf("%d numbers were given out", n)
				}
				if end := next(t, s); end <= seen.largest {
					t.Errorf("the counter is at %d, and %d was given out", end, seen.largest)
				}
			})
		})
	}
}

// live is the life of one node, on a store in bad weather.
func live(t *testing.T, good, s *storage.Store, r *rand.Rand, seen *seen) {
	link := storagetest.NewLink(s)
	q := open(t, link.Store, ids.Config{Most: 100}.AtLeast(1+r.Int64N(20)))
	last := int64(0)
	for range 30 {
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for range r.IntN(10) {
			n, err := q.Next(ctx)
			if err != nil {
				if errors.Is(err, ids.ErrBackwards) || errors.Is(err, ids.ErrCorrupt) {
					t.Error(err)
				}
				break
			}
			if n <= last {
				t.Errorf("got %d after %d", n, last)
			}
			last = n
			seen.add(t, n)
		}
		cancel()
	}
	switch r.IntN(4) {
	case 0: // dies
		link.Cut()
		_ = q.Close(t.Context())
	case 1:
		if err := ids.Raise(t.Context(), s, name, last+r.Int64N(50)); err == nil && next(t, good) <= last {
			t.Errorf("the counter is at %d, and was raised past %d", next(t, good), last)
		}
	}
	_ = q.Close(t.Context())
}

// A hundred nodes take a hundred numbers a second each: less than one race is lost for each reservation, at most two
// requests are made for each range and each lost race.
func TestAHundredNodes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var (
			calls storagetest.Calls
			nodes sync.WaitGroup
			reg   = prometheus.NewRegistry()
			slow  = storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				time.Sleep(2*time.Millisecond + rand.N(6*time.Millisecond)) // as near storage answers
				defer time.Sleep(rand.N(6 * time.Millisecond))
				return calls.Hook(ctx, op, do)
			})
		)
		for range 100 {
			nodes.Go(func() {
				q := open(t, slow, ids.Config{Metrics: reg})
				defer finish(t, q)
				time.Sleep(rand.N(time.Second))
				for range 600 { // for two minutes
					for range 20 {
						if _, err := q.Next(t.Context()); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		nodes.Wait()
		reserved, lost := metric(t, reg, "millrace_ids_reservations_total"), metric(t, reg, "millrace_ids_lost_races_total")
		t.Logf("%v reservations, %v lost races, %v waits, %d requests", reserved, lost, metric(t, reg, "millrace_ids_waits_total"), calls.Count())
		if reserved < 1000 || lost >= reserved {
			t.Errorf("%v races were lost for %v reservations", lost, reserved)
		}
		if got, most := calls.Count(), 2*int(reserved+lost)+100; got > most {
			t.Errorf("%d requests were made, want at most %d", got, most)
		}
	})
}
