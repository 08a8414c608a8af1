package storagetest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// Config tells how to open the store under test and which abilities it claims.
type Config struct {
	// Open opens a store on a fresh, empty place. The suite closes the store; Open cleans up anything else by
	// t.Cleanup. Required.
	Open func(t *testing.T) *storage.Store

	// Reopen opens s's place once more, as another process would. s came from Open or Reopen, and may be closed. The
	// suite closes the result. Defaults to none: the tests with two stores are left out.
	Reopen func(t *testing.T, s *storage.Store) *storage.Store

	// Precision is how far off the end of a delay or a visibility may be: a driver with whole seconds needs 1 s.
	// Defaults to 20 ms.
	Precision time.Duration

	// Durable says that Reopen after Close finds all acknowledged writes. It needs Reopen.
	Durable bool

	// Atomic, Rings, Claims, Finds, Peeks and Files are abilities that the store must have. An ability is tested if the
	// store has it, required or not. A required one that is missing is a failure, not a skip.
	Atomic, Rings, Claims, Finds, Peeks, Files bool

	// Client uses the URLs of files, where the store has such URLs. Defaults to http.DefaultClient.
	Client *http.Client

	// PeeksDelayed says that Peek shows all messages that wait, delayed ones too. Elsewhere it may show the first ready
	// messages alone.
	PeeksDelayed bool

	// PeeksReceipts says that Peek shows what waits with receipts, which delete it. Without it the store may do so.
	PeeksReceipts bool

	// RingsVisibility says that a queue also rings when a visibility ends; elsewhere the next poll finds the message.
	RingsVisibility bool

	// Short uses fewer blobs, rows and messages, for an engine with slow calls.
	Short bool

	// Repeats says that the driver repeats requests whose answer was lost, on a busy machine after seconds. A message may
	// then be with nobody for a while: its first request has received or deleted it.
	Repeats bool

	// Queues leaves out the tests of documents and of names, for a decorator that changes nothing but queues.
	Queues bool

	// Only is the one group of tests that runs, such as "files", where the engine under test plays no more than that.
	// Defaults to all.
	Only string

	// Parallel is how many tests run concurrently. Defaults to 16.
	Parallel int

	// Patience is how long the suite waits for an event that must happen "soon". Defaults to 15 s.
	Patience time.Duration
}

// Driver is the Config of a driver that keeps its laws across openings. fresh returns a new place each time, and
// the driver can open a place any number of times.
func Driver(open func(ctx context.Context, place string) (*storage.Store, error), fresh func(t *testing.T) string) Config {
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

// A test is one named requirement of a store.
type test struct {
	name string
	run  func(t *check)
}

// groups lists all tests. It is a function, because there is no package-level state.
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
		{"publish", publishTests()},
		{"claim", claimTests()},
		{"inspect", inspectTests()},
		{"find", findTests()},
		{"peek", peekTests()},
		{"files", fileTests()},
		{"close", closeTests()},
		{"two stores", twoStoresTests()},
		{"durable", durableTests()},
	}
}

// Run runs the suite and returns when all tests have ended.
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
			err := contain.Do(func() { x.run(&check{asserts: asserts{T: t, cfg: cfg, ctx: ctx}, s: shared, names: &names}) })
			if p, ok := err.(*contain.Panic); ok {
				why, ok := p.Value.(absent)
				if !ok {
					t.Fatalf("%v\n%s", p, contain.Stack(p.Frames))
				}
				t.Logf("left out: %s", why)
			}
		})
	}
	// t.Parallel would run only -parallel tests at a time, two on a small machine. t.Run may be called from many
	// goroutines.
	var all sync.WaitGroup
	for _, g := range groups() {
		if cfg.Only != "" && g.name != cfg.Only {
			continue
		}
		if cfg.Queues && slices.Contains([]string{"blobs", "listing", "table", "batch", "names and keys", "files"}, g.name) {
			continue
		}
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
