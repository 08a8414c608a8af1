package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l, err := quorum.Acquire(ctx, stores, name, quorum.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if l, err := try(stores); !errors.Is(err, quorum.ErrHeld) || !strings.Contains(err.Error(), name) {
			t.Errorf("Try of a lock that is held: %d, %v", drop(l), err)
		}
		end := errors.New("over")
		cancel(end)
		wantCause(t, l, end)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := l.Release(ctx); err != nil { // although ctx has ended
					t.Error(err)
				}
			})
		}
		both.Wait()
		next, err := try(stores)
		if err != nil || next.Fence() != 2 {
			t.Fatalf("after the release: %v, %v", next, err)
		}
		release(t, l) // it must not release the next holder's lock
		if l, err := try(stores); !errors.Is(err, quorum.ErrHeld) {
			t.Errorf("Try after the first holder's second release: %d, %v", drop(l), err)
		}
		release(t, next)
		wantCause(t, next, context.Canceled)
	})
}

func TestAReleaseThatFails(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		l := acquire(t, p.stores)
		time.Sleep(ttl / 2) // a store that came too late for the acquisition is taken by the next renewal
		p.cut(0, 1)
		begin := time.Now()
		if err := l.Release(t.Context()); !errors.Is(err, storage.ErrUnavailable) || time.Since(begin) > ttl/3 {
			t.Errorf("released with %v in %v", err, time.Since(begin))
		}
		p.restore(1)
		release(t, l) // two of three are enough
		next, err := try(stores)
		if err != nil {
			t.Fatal(err)
		}
		release(t, next)
	})
}

// Eight processes want the lock for a moment, over and over. All get it, also at the first use.
func TestManyCandidates(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		var (
			seen watch
			all  sync.WaitGroup
		)
		begin := time.Now()
		for range 8 {
			all.Go(func() {
				for range 2 {
					l := acquire(t, stores)
					seen.see(t, l)
					release(t, l)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); took > 6*ttl {
			t.Errorf("16 turns took %v", took)
		}
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		fault := errors.New("fault")
		err := quorum.Do(t.Context(), stores, name, quorum.Config{TTL: ttl}, func(ctx context.Context, fence int64) error {
			if ctx.Err() != nil || fence != 1 {
				t.Errorf("fence %d, %v", fence, ctx.Err())
			}
			return fault
		})
		if !errors.Is(err, fault) {
			t.Errorf("got %v", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = quorum.Do(t.Context(), stores, name, quorum.Config{TTL: ttl}, func(context.Context, int64) error { panic("fault") })
		}()
		l, err := try(stores)
		if err != nil {
			t.Fatalf("after a panic: %v", err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), ttl, fault)
		defer cancel()
		if err := quorum.Do(ctx, stores, name, quorum.Config{TTL: ttl}, func(context.Context, int64) error { return nil }); !errors.Is(err, fault) {
			t.Errorf("got %v", err)
		}
		release(t, l)
	})
}

// A function that doesn't notice the loss of its lock is no success.
func TestDoTellsOfALoss(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		err := quorum.Do(t.Context(), p.stores, name, quorum.Config{TTL: ttl}, func(ctx context.Context, _ int64) error {
			p.cut(0, 1)
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, quorum.ErrLost) {
			t.Errorf("got %v, want the loss", err)
		}
		p.restore(0, 1)
		err = quorum.Do(t.Context(), p.stores, name, quorum.Config{TTL: ttl}, func(ctx context.Context, _ int64) error {
			p.cut(0, 1)
			<-ctx.Done()
			return fmt.Errorf("read: %w", (*os.PathError)(nil)) // whose Unwrap panics
		})
		if !errors.Is(err, quorum.ErrLost) || !strings.Contains(err.Error(), "read: ") {
			t.Errorf("got %v, want the loss and the error that can't be unwrapped", err)
		}
		if err := quorum.Do(t.Context(), stores, name, quorum.Config{TTL: ttl}, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("without a function: %v", err)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	virtual(t, 4, func(t *testing.T, s []*storage.Store) {
		for _, c := range []struct {
			stores []*storage.Store
			name   string
			ttl    time.Duration
			want   []string
		}{
			{nil, name, 0, []string{"0 stores"}},
			{s[:1], name, 0, []string{"1 stores; want an odd number from 3 to 9"}},
			{s, name, 0, []string{"4 stores"}},
			{append(append(s[:4:4], s...), s...), name, 0, []string{"12 stores", "stores[0] and stores[4]"}},
			{[]*storage.Store{s[0], nil, s[0], nil}, "a\nb", time.Second, []string{"4 stores", "1 of 4 stores are open", "stores[0] and stores[2] are one", "key", "TTL"}},
			{s[:3], "", -ttl, []string{"key", "TTL"}},
			{s[:3], name, 25 * time.Hour, []string{"TTL"}},
			{s[:3], name, ttl + 1, []string{"TTL"}},
		} {
			_, err := quorum.Try(t.Context(), c.stores, c.name, quorum.Config{TTL: c.ttl})
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%v: %v", c.want, err)
				continue
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %v; want a word about %s", err, w)
				}
			}
		}
		for _, holder := range []string{strings.Repeat("x", 257), "\xff"} {
			_, err := quorum.Try(t.Context(), s[:3], name, quorum.Config{Holder: holder})
			if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "Holder") {
				t.Errorf("holder %.10q: %v", holder, err)
			}
		}
	})
}

// One store with something else under the name is a store that is dead. Two are a fault that no waiting mends.
func TestADocumentThatIsNoGrant(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		for what, body := range map[string]string{
			"text": "x", "no fence": `{"id":"a","ttl":5}`, "no TTL": `{"id":"a","fence":1}`, "a long TTL": `{"id":"a","fence":1,"ttl":9e17}`,
			"a fence at the end": `{"id":"","fence":9223372036854775807}`, "a negative fence": `{"id":"","fence":-1}`,
		} {
			release(t, acquire(t, stores))
			put := func(i int) {
				if _, err := stores[i].Blobs("quorum").Put(t.Context(), name, []byte(body), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			put(1)
			release(t, acquire(t, stores))
			put(0)
			if _, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: ttl}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "stores[1]") {
				t.Errorf("%s: %v", what, err)
			}
			for i := range stores {
				forget(t, stores[i])
			}
		}
	})
}

// Two stores that are one place can't be told apart before the lock is taken. They never count twice.
func TestOnePlaceTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	virtual(t, 1, func(t *testing.T, stores []*storage.Store) {
		place := filepath.Join(dir, "twice")
		stores = append(stores, agreetest.Open(t, place), agreetest.Open(t, place))
		p := newProcess(stores)
		p.cut(0)
		ctx, cancel := context.WithTimeout(t.Context(), 4*ttl)
		defer cancel()
		if l, err := quorum.Acquire(ctx, p.stores, name, quorum.Config{TTL: ttl}); err == nil {
			t.Errorf("got lock %d with one place of two", drop(l))
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		r := prometheus.NewRegistry()
		cfg := quorum.Config{TTL: ttl, Metrics: r}
		p := newProcess(stores)
		l, err := quorum.Acquire(t.Context(), p.stores, name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := quorum.Try(t.Context(), stores, name, cfg); err == nil {
			t.Errorf("got it twice, now lock %d", drop(l))
		}
		p.cut(1, 2)
		<-l.Context().Done()
		release(t, l)
		want := `
# HELP millrace_quorum_lost_total Locks that were lost while they were held.
# TYPE millrace_quorum_lost_total counter
millrace_quorum_lost_total 1
# HELP millrace_quorum_rounds_total Rounds of acquisitions, by outcome: acquired, held, split, or failed.
# TYPE millrace_quorum_rounds_total counter
millrace_quorum_rounds_total{outcome="acquired"} 1
millrace_quorum_rounds_total{outcome="held"} 1
`
		if err := testutil.GatherAndCompare(r, strings.NewReader(want), "millrace_quorum_rounds_total", "millrace_quorum_lost_total"); err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(r, "millrace_quorum_store_failures_total"); err != nil || n != 2 {
			t.Errorf("%d stores failed, %v; want 2", n, err)
		}
	})
}

// A process dies in its nth call to each store, before its effect or after it. The next process gets the lock, and
// never holds it at the same time.
func TestDeathInAnyCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			t.Parallel()
			for n := int64(1); n < 6; n++ {
				virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
					var dying []*storage.Store
					for _, s := range stores {
						d, _ := storagetest.Crash(s, n, moment)
						dying = append(dying, d)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
					defer cancel()
					var seen watch
					l, err := quorum.Acquire(ctx, dying, name, quorum.Config{TTL: ttl})
					if err == nil {
						seen.see(t, l)
					}
					if (err == nil) != (n > 2) {
						t.Errorf("death in call %d: %v", n, err)
					}
					begin := time.Now()
					next := acquire(t, stores)
					seen.see(t, next)
					if took := time.Since(begin); took > 3*ttl {
						t.Errorf("death in call %d: taken over after %v", n, took)
					}
					release(t, next)
				})
			}
		})
	}
}

// A store that couldn't be opened counts as one that fails.
func TestOneStoreIsNotOpen(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, s []*storage.Store) {
		for i, stores := range [][]*storage.Store{s, {s[0], nil, s[2]}} {
			l, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := l.Fence(), int64(i+1); got != want {
				t.Errorf("fence %d, want %d", got, want)
			}
			time.Sleep(2 * ttl)
			if err := l.Context().Err(); err != nil {
				t.Errorf("with the stores %d: %v", i, context.Cause(l.Context()))
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
