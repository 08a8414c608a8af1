package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Any number pass a gate together, or one is alone. One that waits to be alone is not kept waiting by those that come
// later.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate
		var events []string
		var mu sync.Mutex
		begin := func(name string, enter func(context.Context) error) {
			go func() {
				if err := enter(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				events = append(events, name)
			}()
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(events) != len(names) {
				t.Fatalf("entered: got %q, want %q", events, names)
			}
			events = nil
		}
		begin("a", g.pass)
		begin("b", g.pass)
		want("a", "b")
		begin("alone", g.close)
		begin("c", g.pass)
		begin("alone, too", g.close)
		want()
		g.passed()
		want()
		g.passed()
		want("alone")
		g.open()
		want("alone, too")
		g.open()
		want("c")
		g.passed()
	})
}

// A caller whose context ends doesn't enter, and holds up nobody.
func TestGateAndTheEndOfAContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate
		why := errors.New("no time")
		over, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := g.pass(over); err != why {
			t.Errorf("pass: got %v, want %v", err, why)
		}
		if err := g.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		if err := g.close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: got %v, want the end of the context", err)
		}
		if err := g.pass(t.Context()); err != nil {
			t.Errorf("after a close that was given up: %v", err)
		}
		g.passed()
		g.passed()
		if err := g.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Nobody passes while one is alone, in any order of calls.
func TestGateKeepsApart(t *testing.T) {
	t.Parallel()
	var g gate
	var passing, alone atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				if rand.IntN(4) > 0 {
					if err := g.pass(t.Context()); err != nil {
						t.Error(err)
					}
					passing.Add(1)
					if alone.Load() > 0 {
						t.Error("one passes beside one that is alone")
					}
					passing.Add(-1)
					g.passed()
					continue
				}
				if err := g.close(t.Context()); err != nil {
					t.Error(err)
				}
				if alone.Add(1) > 1 || passing.Load() > 0 {
					t.Error("one is not alone")
				}
				alone.Add(-1)
				g.open()
			}
		})
	}
	all.Wait()
}
