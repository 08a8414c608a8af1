package storagetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Config says how to open the store under test and what it claims.
type Config struct {
	// Open opens a store on a fresh, empty place. The suite closes it; what else is to be cleaned up is
	// the maker's, by t.Cleanup. Required.
	Open func(t *testing.T) *storage.Store

	// Reopen opens the place of s once more, as another process would. s came from Open or Reopen, and
	// may be closed. The suite closes the result. Without it the tests with two stores are skipped.
	Reopen func(t *testing.T, s *storage.Store) *storage.Store

	// Precision is how far the moments at which a delay or a visibility ends may be off: a driver of
	// whole seconds says 1 s. Defaults to 20 ms.
	Precision time.Duration

	// Durable says that what was acknowledged is found by Reopen after Close. It needs Reopen.
	Durable bool

	// Abilities that the store must have. One that is found is tested whether named here or not; one
	// that is named and not found is a failure, not a skip.
	Atomic, Rings, Claims bool

	// RingsVisibility says that a queue also rings when a visibility ends; elsewhere the next poll finds out.
	RingsVisibility bool

	// Short uses fewer blobs, rows and messages, for an engine with slow calls.
	Short bool

	// Parallel is how many tests run at a time. Defaults to 16.
	Parallel int

	// Patience is how long the suite waits for what must happen "soon". Defaults to 15 s.
	Patience time.Duration
}

// Driver is the Config of a driver that keeps its laws across openings: fresh names a new place each
// time, and the driver opens it as often as wanted.
func Driver(open storage.Driver, fresh func(t *testing.T) string) Config {
	var places sync.Map // *storage.Store → string
	at := func(t *testing.T, place string) *storage.Store {
		t.Helper()
		s, err := open(t.Context(), place)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		places.Store(s, place)
		return s
	}
	return Config{
		Open: func(t *testing.T) *storage.Store {
			t.Helper()
			return at(t, fresh(t))
		},
		Reopen: func(t *testing.T, s *storage.Store) *storage.Store {
			t.Helper()
			place, ok := places.Load(s)
			if !ok {
				t.Fatal("Reopen of a store that Open did not return")
			}
			return at(t, place.(string))
		},
		Durable: true,
	}
}

func (c Config) validate() (Config, error) {
	if c.Open == nil {
		return c, fmt.Errorf("storagetest: Config.Open is required")
	}
	if c.Durable && c.Reopen == nil {
		return c, fmt.Errorf("storagetest: Config.Durable needs Config.Reopen")
	}
	if c.Precision == 0 {
		c.Precision = 20 * time.Millisecond
	}
	if c.Parallel == 0 {
		c.Parallel = 16
	}
	if c.Patience == 0 {
		c.Patience = 15 * time.Second
	}
	return c, nil
}

// A test is one named demand on a store.
type test struct {
	name string
	run  func(t *check)
}

// groups lists all tests. It is a function, for want of package-level state.
func groups() []struct {
	name  string
	tests []test
} {
	return []struct {
		name  string
		tests []test
	}{
		{"props", propsTests()},
		{"queue", queueTests()},
		{"receipts", receiptTests()},
		{"timing", timingTests()},
		{"races", raceTests()},
		{"blobs", blobTests()},
		{"listing", listTests()},
		{"table", tableTests()},
		{"batch", batchTests()},
		{"names and keys", keyTests()},
		{"aliasing", aliasTests()},
		{"cancelling", cancelTests()},
		{"commit", commitTests()},
		{"atomic", atomicTests()},
		{"listen", listenTests()},
		{"claim", claimTests()},
		{"close", closeTests()},
		{"two stores", twoStoresTests()},
		{"durable", durableTests()},
	}
}

// Run runs the suite and returns when all of it is done.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	cfg, err := cfg.validate()
	if err != nil {
		t.Fatal(err)
	}
	shared := openStore(t, cfg)
	var names atomic.Int64
	slots := make(chan struct{}, cfg.Parallel)
	one := func(t *testing.T, x test) {
		slots <- struct{}{}
		defer func() { <-slots }()
		t.Run(x.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*cfg.Patience)
			defer cancel()
			defer func() {
				if v := recover(); v != nil {
					why, ok := v.(absent)
					if !ok {
						panic(v)
					}
					t.Logf("left out: %s", why)
				}
			}()
			x.run(&check{T: t, cfg: cfg, s: shared, ctx: ctx, names: &names})
		})
	}
	// t.Parallel would let -parallel tests run at a time, two on a small machine; t.Run may be called
	// from many goroutines.
	var all sync.WaitGroup
	for _, g := range groups() {
		all.Go(func() {
			t.Run(g.name, func(t *testing.T) {
				var group sync.WaitGroup
				for _, x := range g.tests {
					group.Go(func() { one(t, x) })
				}
				group.Wait()
			})
		})
	}
	all.Wait()
}

func openStore(t *testing.T, cfg Config) *storage.Store {
	t.Helper()
	s := cfg.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
