package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Six processes acquire the lock again and again, while calls succeed or fail. Some die while they hold it, and one
// store forgets now and then.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, 3+2*int(seed/7), func(t *testing.T, stores []*storage.Store) {
				var (
					seen    watch
					holders sync.WaitGroup
				)
				for i := range uint64(6) {
					holders.Go(func() {
						r := rand.New(rand.NewPCG(seed, i))
						mine := append([]*storage.Store{}, stores...)
						for k, s := range mine {
							if seed > 0 {
								mine[k] = weather(s, rand.New(rand.NewPCG(seed*100+i, uint64(k))))
							}
						}
						for range 2 {
							holdOnce(t, mine, r, &seen)
						}
					})
				}
				over := make(chan struct{})
				if seed > 3 {
					go forgetNowAndThen(t, stores[seed%3], over)
				}
				holders.Wait()
				close(over)
				if n := len(seen.locks); n != 12 {
					t.Errorf("the lock was had %d times, want 12", n)
				}
			})
		})
	}
}

func holdOnce(t *testing.T, stores []*storage.Store, r *rand.Rand, seen *watch) {
	p := newProcess(stores)
	l := acquire(t, p.stores)
	seen.see(t, l)
	select {
	case <-l.Context().Done():
	case <-time.After(time.Duration(r.Int64N(int64(2 * ttl)))):
	}
	if r.IntN(3) == 0 { // it dies
		for i := range p.links {
			p.cut(i)
		}
		<-l.Context().Done()
		wantCause(t, l, quorum.ErrLost)
	}
	_ = l.Release(t.Context())
}

func forgetNowAndThen(t *testing.T, s *storage.Store, over chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(4 * ttl):
			forget(t, s)
		}
	}
}

func TestAHolderDies(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		dead := acquire(t, p.stores)
		p.cut(0, 1, 2)
		begin := time.Now()
		next := acquire(t, stores)
		if got, want := time.Since(begin), ttl*7/6; got != want {
			t.Errorf("taken over after %v, want %v", got, want)
		}
		wantCause(t, dead, quorum.ErrLost)
		if dead.Fence() != 1 || next.Fence() != 2 {
			t.Errorf("fences %d and %d, want 1 and 2", dead.Fence(), next.Fence())
		}
		p.restore(0, 1, 2)
		release(t, dead) // it must not release the next holder's lock
		if _, err := try(stores); !errors.Is(err, quorum.ErrHeld) {
			t.Errorf("Try of a lock that is held: %v", err)
		}
		time.Sleep(3 * ttl)
		if err := next.Context().Err(); err != nil {
			t.Errorf("a lock that is renewed ended: %v", err)
		}
		release(t, next)
	})
}

// The purpose of all this: one store of three is dead, whichever and however, and the lock works.
func TestOneStoreIsDead(t *testing.T) {
	t.Parallel()
	for way, fail := range map[string]func(ctx context.Context, over chan struct{}) error{
		"refuses":        func(context.Context, chan struct{}) error { return storage.ErrUnavailable },
		"hangs":          func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return context.Cause(ctx) },
		"hangs for good": func(_ context.Context, over chan struct{}) error { <-over; return storage.ErrUnavailable },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
				release(t, acquire(t, stores)) // all of them know the lock
				over := make(chan struct{})
				var seen watch
				for dead := range stores {
					mine := append([]*storage.Store{}, stores...)
					mine[dead] = storagetest.Intercept(stores[dead], func(ctx context.Context, _ storagetest.Op, _ func() error) error {
						return fail(ctx, over)
					})
					begin := time.Now()
					l := acquire(t, mine)
					seen.see(t, l)
					if took := time.Since(begin); took > time.Millisecond {
						t.Errorf("without store %d it took %v", dead, took)
					}
					time.Sleep(3 * ttl)
					if err := context.Cause(l.Context()); err != nil {
						t.Errorf("without store %d it ended: %v", dead, err)
					}
					release(t, l)
					if took := time.Since(begin); took > 3*ttl+ttl/4 {
						t.Errorf("without store %d the release took long: %v in all", dead, took)
					}
				}
				close(over)
			})
		})
	}
}

func TestTwoStoresAreDead(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		release(t, acquire(t, stores)) // now all stores have a fence: a majority with one that forgot tells nothing
		p := newProcess(stores)
		l := acquire(t, p.stores)
		p.cut(0, 2)
		<-l.Context().Done()
		wantCause(t, l, quorum.ErrLost)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("the release of a lost lock: %v", err)
		}
		time.Sleep(2 * ttl)
		if _, err := try(p.stores); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, quorum.ErrHeld) {
			t.Errorf("Try without a majority: %v", err)
		}
		end := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*ttl, end)
		defer cancel()
		if _, err := quorum.Acquire(ctx, p.stores, name, quorum.Config{TTL: ttl}); !errors.Is(err, end) {
			t.Errorf("Acquire without a majority: %v", err)
		}
		back := time.AfterFunc(ttl, func() { p.restore(0) })
		defer back.Stop()
		next := acquire(t, p.stores)
		if next.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
		release(t, next)
	})
}

// A store that comes back is taken into the lock: then another one may die.
func TestAStoreComesBack(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		release(t, acquire(t, stores))
		p.cut(2)
		l := acquire(t, p.stores)
		p.restore(2)
		time.Sleep(ttl / 2)
		p.cut(0)
		time.Sleep(3 * ttl)
		p.cut(1)
		p.restore(0)
		begin := time.Now()
		time.Sleep(3 * ttl)
		if err := context.Cause(l.Context()); err != nil {
			t.Errorf("it ended with %v before %v", err, time.Since(begin))
		}
		release(t, l)
	})
}

// A majority is more than half. Two processes that reach two of five stores each, and share none, both get nothing.
func TestHalfIsNoMajority(t *testing.T) {
	t.Parallel()
	virtual(t, 5, func(t *testing.T, stores []*storage.Store) {
		release(t, acquire(t, stores))
		p, q := newProcess(stores), newProcess(stores)
		p.cut(0, 1, 2)
		q.cut(2, 3, 4)
		for _, half := range []*process{p, q} {
			if l, err := try(half.stores); !errors.Is(err, storage.ErrUnavailable) {
				t.Fatalf("two of five gave lock %v, %v", drop(l), err)
			}
		}
		q.restore(2)
		release(t, acquire(t, q.stores))
	})
}

// Calls are slow. Their time is subtracted from the time that the lock is proved for.
func TestSpentTimeIsSubtracted(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		const slow = ttl / 10
		var dead time.Time
		mine := append([]*storage.Store{}, stores...)
		for i, s := range mine {
			mine[i] = storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if time.Now().After(dead) && !dead.IsZero() {
					return op.Fail(storage.ErrUnavailable)
				}
				err := do()
				time.Sleep(slow)
				return err
			})
		}
		begin := time.Now()
		dead = begin.Add(ttl / 4)
		l := acquire(t, mine)
		if got := time.Since(begin); got != 2*slow {
			t.Errorf("acquired after %v, want %v", got, 2*slow)
		}
		<-l.Context().Done()
		if got, want := time.Since(begin), slow+ttl*5/6; got != want { // the writes began after the reads
			t.Errorf("ended after %v, want %v", got, want)
		}
		wantCause(t, l, quorum.ErrLost)
		_ = l.Release(t.Context())
	})
}

// The process stands still in the middle of an acquisition. Its old writes prove nothing when it goes on.
func TestAPauseInARound(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{ttl / 2, ttl, 3 * ttl} {
		for at := int64(1); at <= 2; at++ {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v/%d/%v", pause, at, before), func(t *testing.T) {
					t.Parallel()
					virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
						var (
							seen watch
							both sync.WaitGroup
						)
						mine := append([]*storage.Store{}, stores...)
						for i, s := range mine {
							mine[i] = storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
								if op.Seq == at && before {
									time.Sleep(pause)
								}
								err := do()
								if op.Seq == at && !before {
									time.Sleep(pause)
								}
								return err
							})
						}
						for _, view := range [][]*storage.Store{mine, stores} {
							both.Go(func() {
								l := acquire(t, view)
								seen.see(t, l)
								select {
								case <-l.Context().Done():
								case <-time.After(2 * ttl):
								}
								release(t, l)
							})
						}
						both.Wait()
					})
				})
			}
		}
	}
}

// Any one call fails, before its effect or after it: nothing is lost, and the lock is free in the end.
func TestAnyCallFails(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for way, get := range map[string]func(context.Context, []*storage.Store, string, quorum.Config) (*quorum.Lock, error){"acquire": quorum.Acquire, "try": quorum.Try} {
			t.Run(fmt.Sprintf("%s/%s", way, moment), func(t *testing.T) {
				t.Parallel()
				virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
					for _, known := range []bool{false, true} { // whether the name was used before
						hit := true
						for n := int64(1); hit; n++ {
							name := fmt.Sprintf("%s-%d-%v", name, n, known)
							get := func(stores []*storage.Store) (*quorum.Lock, error) {
								return get(t.Context(), stores, name, quorum.Config{TTL: ttl})
							}
							if known {
								l, err := get(stores)
								if err != nil {
									t.Fatal(err)
								}
								release(t, l)
							}
							hit = failOne(t, stores, n, moment, get)
							if t.Failed() || !hit && n < 8 {
								t.Fatalf("stopped at call %d, hit %v, known %v", n, hit, known)
							}
						}
					}
				})
			})
		}
	}
}

// failOne fails the nth call of the first store while a lock is acquired, held and released.
func failOne(t *testing.T, stores []*storage.Store, n int64, moment storagetest.Moment, get func([]*storage.Store) (*quorum.Lock, error)) (hit bool) {
	mine := append([]*storage.Store{}, stores...)
	mine[0] = storagetest.Intercept(stores[0], func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Seq != n {
			return do()
		}
		hit = true
		if moment == storagetest.AfterEffect {
			_ = do()
		}
		return op.Fail(storage.ErrUnavailable)
	})
	l, err := get(mine)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2*ttl - time.Second)
	if err := context.Cause(l.Context()); err != nil {
		t.Errorf("it ended: %v", err)
	}
	release(t, l)
	next, err := get(stores)
	if err != nil {
		t.Fatal(err)
	}
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
	release(t, next)
	return hit
}
