package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Renewal is no election: over a hundred renewals, and while other candidates come and go, the leader stays.
func TestLawTheIncumbentStays(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		wantTerm(t, r, 1)
		for range 10 {
			b, c := begin(t, s, "b", leader.Config{}), begin(t, s, "c", leader.Config{})
			time.Sleep(ttl / 3 * 10)
			b.idle(t)
			c.idle(t)
			b.quit(t, nil)
			c.quit(t, nil)
		}
		a.idle(t)
		if err := r.ctx.Err(); err != nil {
			t.Errorf("the term ended: %v", context.Cause(r.ctx))
		}
		wantLeader(t, s, "a", 1)
		a.quit(t, r)
		wantLeader(t, s, "", 1)
	})
}

// Terms grow by one with each change, in whatever way a term ends.
func TestLawTermsGrowByOne(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var seen watch
		a, b := begin(t, s, "a", leader.Config{}), begin(t, s, "b", leader.Config{})
		for term := int64(1); term <= 20; term++ {
			p := a
			var r *reign
			select {
			case r = <-a.reigns:
			case r = <-b.reigns:
				p = b
			}
			wantTerm(t, r, term)
			seen.see(t, r)
			switch term % 4 {
			case 0:
				r.end <- errors.New("some failure")
			case 1:
				p.link.Cut()
				<-r.ctx.Done()
				wantCause(t, r, lease.ErrLost)
				r.end <- nil
				time.Sleep(ttl)
				p.link.Restore()
			default:
				p.quit(t, r)
				again := begin(t, s, p.holder, leader.Config{})
				if p == a {
					a = again
				} else {
					b = again
				}
			}
		}
		a.stop()
		b.stop()
		for range 2 { // one of them may lead
			select {
			case r := <-a.reigns:
				r.end <- nil
			case r := <-b.reigns:
				r.end <- nil
			case err := <-a.over:
				a.over <- err
			case err := <-b.over:
				b.over <- err
			}
		}
		_, _ = a.ended(t), b.ended(t)
	})
}

// A stop ends the function's context, and the leader keeps its term until the function has returned, however long that
// takes. Then the next leader begins: at once where it hears of it, and else by a poll.
func TestLawAStopHandsOverWhenTheFunctionHasReturned(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct {
		rival func(*storage.Store) *storage.Store
		most  time.Duration
	}{
		"told":   {func(s *storage.Store) *storage.Store { return s }, 0},
		"polled": {deaf, ttl / 3},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := begin(t, s, "a", leader.Config{DrainTimeout: time.Hour})
				r := a.reign(t)
				b := begin(t, c.rival(s), "b", leader.Config{})
				a.stop()
				<-r.ctx.Done()
				wantCause(t, r, context.Canceled)
				time.Sleep(5 * ttl)
				b.idle(t)
				wantLeader(t, s, "a", 1)
				r.end <- nil
				left := time.Now()
				next := b.reign(t)
				took := next.began.Sub(left)
				t.Logf("handed over after %v of virtual time", took)
				if took > c.most {
					t.Errorf("the next leader began %v after the function returned, want %v at most", took, c.most)
				}
				wantTerm(t, next, 2)
				if err := a.ended(t); err != nil {
					t.Error(err)
				}
				b.quit(t, next)
			})
		})
	}
}

// A leader that is cut off, or dies, is followed 7/6 to 3/2 of the TTL after its last renewal. Its context has ended
// before.
func TestLawADeadLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		after := ttl + 100*time.Millisecond + time.Duration(i)*ttl/31
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := begin(t, s, "a", leader.Config{})
				r := a.reign(t)
				b := begin(t, s, "b", leader.Config{})
				time.Sleep(after)
				a.link.Cut()
				next := b.reign(t)
				wantCause(t, r, lease.ErrLost)
				renewed := r.began.Add(after.Truncate(ttl / 3))
				if took := next.began.Sub(renewed); took < ttl*7/6-time.Millisecond || took > ttl*3/2+time.Millisecond {
					t.Errorf("followed %v after the last renewal, want %v to %v", took, ttl*7/6, ttl*3/2)
				}
				wantTerm(t, next, 2)
				a.link.Restore()
				r.end <- nil
				time.Sleep(3 * ttl)
				a.idle(t) // the one that came back is a candidate like any other
				a.quit(t, nil)
				b.quit(t, next)
			})
		})
	}
}

// An operator breaks the lease: the context ends, another leads, and the first one becomes a candidate again.
func TestABrokenTerm(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		b := begin(t, s, "b", leader.Config{})
		time.Sleep(ttl)
		if err := lease.Break(t.Context(), s, "leader/"+name, lease.Note{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		<-r.ctx.Done()
		wantCause(t, r, lease.ErrLost)
		b.idle(t)
		r.end <- nil
		next := b.reign(t)
		wantTerm(t, next, 2)
		b.quit(t, next)
		last := a.reign(t)
		wantTerm(t, last, 3)
		a.quit(t, last)
	})
}

// A leader of an earlier term can't write what a later one has written, although it doesn't know that its term is over.
func TestLawLateWritesAreFenced(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		books := s.Blobs("books")
		type term struct {
			leader.Term
			ctx context.Context
		}
		lead := func(s *storage.Store) (<-chan term, context.CancelFunc, <-chan error) {
			ctx, stop := context.WithCancel(t.Context())
			terms, over := make(chan term, 1), make(chan error, 1)
			go func() {
				over <- leader.Run(ctx, s, name, leader.Config{TTL: ttl}, func(ctx context.Context, x leader.Term) error {
					terms <- term{x, ctx}
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			return terms, stop, over
		}
		link := storagetest.NewLink(s)
		terms, stopOld, oldOver := lead(link.Store)
		old := <-terms
		if _, err := old.Blobs(books).Put(t.Context(), "ledger", []byte("old"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		link.Cut()
		next, stopNew, newOver := lead(s)
		now := <-next
		if _, err := now.Blobs(books).Put(t.Context(), "ledger", []byte("new"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Blobs(books).Put(t.Context(), "ledger", []byte("late"), storage.Condition{}); !errors.Is(err, lease.ErrFenced) {
			t.Errorf("a late write: %v, want %v", err, lease.ErrFenced)
		}
		if d, err := lease.Read(t.Context(), books, "ledger"); err != nil || string(d.Content) != "new" || d.Fence != now.Number || d.Lease != "leader/"+name {
			t.Errorf("the ledger: %+v, %v", d, err)
		}
		stopOld()
		stopNew()
		if err := errors.Join(<-oldOver, <-newOver); err != nil {
			t.Error(err)
		}
	})
}

// In bad weather, with functions that end in every way, no two contexts are alive at once.
func TestLawOneContextAtATime(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				var (
					seen           watch
					programs, late sync.WaitGroup
				)
				ctx, stop := context.WithTimeout(t.Context(), 40*ttl)
				defer stop()
				for i, holder := range holders(6) {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					mine := s
					if seed > 0 {
						mine = weather(s, r, &late)
					}
					programs.Go(func() { rule(ctx, t, mine, holder, seed*100+uint64(i), &seen) })
				}
				programs.Wait()
				late.Wait()
				if n := len(seen.seen); n < 5 { // else the weather was too bad for this test to show anything
					t.Errorf("there were %d terms only", n)
				}
			})
		})
	}
}

// rule is a program that stands until ctx ends. Its function returns, fails, panics, exits, or outlives its context.
func rule(ctx context.Context, t *testing.T, s *storage.Store, holder string, seed uint64, seen *watch) {
	link := storagetest.NewLink(s)
	var hung sync.WaitGroup
	defer hung.Wait()
	for ctx.Err() == nil {
		link.Restore()
		err := leader.Run(ctx, link.Store, name, leader.Config{TTL: ttl, DrainTimeout: ttl}, func(ctx context.Context, term leader.Term) error {
			seen.see(t, &reign{ctx: ctx, term: term.Number, by: holder})
			r := rand.New(rand.NewPCG(seed, uint64(term.Number)))
			hung.Add(1)
			defer hung.Done()
			end := r.IntN(7)
			if end > 4 {
				link.Cut()
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(r.Int64N(int64(3 * ttl)))):
			}
			switch end {
			case 1:
				return errors.New("some failure")
			case 2:
				panic("some panic")
			case 3:
				runtime.Goexit()
			case 5:
				<-ctx.Done()
				time.Sleep(ttl / 2)
				return ctx.Err()
			case 6:
				<-ctx.Done()
				time.Sleep(3 * ttl / 2) // longer than DrainTimeout
			}
			return nil
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, leader.ErrHung) {
			t.Errorf("%s: %v", holder, err)
		}
	}
}
