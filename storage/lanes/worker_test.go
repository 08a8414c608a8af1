package lanes_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// buy is the message of the tests.
type buy struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

func (buy) Kind() channel.Kind  { return "buy.v1" }
func (b buy) MessageID() string { return b.ID }

// A shop is a program with one queue and one worker, in virtual time.
type shop struct {
	t        testing.TB
	store    *storage.Store // without lanes
	channels *channel.Channels

	mu      sync.Mutex
	handled map[string]time.Time // by ID, when its handler ended first
	times   map[string]int       // by ID
	order   []string
}

const purchases = "purchases"

func openStore(t testing.TB) *storage.Store {
	t.Helper()
	return worldtest.OpenStore(t, worldtest.Virtual)
}

func newShop(t testing.TB, store *storage.Store, routes ...channel.Route) *shop {
	t.Helper()
	known, err := channel.NewRoutes(append(routes, channel.Event[buy](purchases))...)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, store: store, handled: map[string]time.Time{}, times: map[string]int{}}
	if s.channels, err = channel.New(store, known, "/shop"); err != nil {
		t.Fatal(err)
	}
	return s
}

// send sends n messages of a tenant. Their IDs begin with its name.
func (s *shop) send(ctx context.Context, tenant, name string, n int) {
	s.t.Helper()
	ctx = channel.WithTrace(ctx, channel.Trace{Tenant: tenant})
	all := make([]channel.Message, n)
	for i := range all {
		all[i] = buy{ID: fmt.Sprintf("%s/%d", name, i), N: i}
	}
	if err := s.channels.Send(ctx, all...); err != nil {
		s.t.Error(err)
	}
}

// work runs a worker, whose handler takes so long, until the returned function is called.
func (s *shop) work(cfg worker.Config, takes func(buy) time.Duration) (stop func()) {
	s.t.Helper()
	h := handlers.NewRegistry(s.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.React(h, purchases, func(_ context.Context, b buy) error {
		if d := takes(b); d > 0 {
			time.Sleep(d)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.times[b.ID]++; s.times[b.ID] == 1 {
			s.handled[b.ID] = time.Now()
			s.order = append(s.order, b.ID)
		}
		return nil
	})
	w, err := worker.New(h, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// wait waits until so many messages are handled.
func (s *shop) wait(n int) {
	s.t.Helper()
	s.until(func() bool { return s.all() >= n })
}

// until waits until something is true, for ten minutes at most.
func (s *shop) until(is func() bool) {
	s.t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Minute {
			s.t.Fatalf("ten minutes are over, with %d messages handled", s.all())
		}
	}
}

// count counts the messages that were handled and whose IDs begin so.
func (s *shop) count(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.handled {
		if strings.HasPrefix(id, name) {
			n++
		}
	}
	return n
}

// left counts the messages in a queue of the store itself.
func (s *shop) left(queue string) int64 {
	s.t.Helper()
	st, err := s.store.Queue(queue).Stats(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return st.Ready + st.InFlight + st.Delayed
}

// A flood is a load: quiet tenants that send now and then, and one that sends very much at the beginning.
type flood struct {
	quiet  int           // tenants
	each   float64       // messages of each in a second
	lasts  time.Duration // of the quiet ones
	noise  int           // messages of the noisy one
	within time.Duration // in which it sends them
	crew   int           // handlers at a time
	takes  time.Duration // each
}

// run runs the load, and returns how long the messages of quiet tenants took, sorted, and how many there were.
func (f flood) run(t testing.TB, routes ...channel.Route) (took []time.Duration, sent int) {
	s := newShop(t, openStore(t), routes...)
	stop := s.work(worker.Config{Concurrency: f.crew}, func(buy) time.Duration { return f.takes })
	defer stop()
	var all sync.WaitGroup
	began := time.Now()
	all.Go(func() {
		const batches = 100
		for i := range batches {
			s.send(t.Context(), "noisy", fmt.Sprintf("noisy/%d", i), f.noise/batches)
			time.Sleep(f.within / batches)
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	at := map[string]time.Time{}
	for time.Since(began) < f.lasts {
		time.Sleep(time.Duration(r.ExpFloat64() / (f.each * float64(f.quiet)) * float64(time.Second)))
		name := fmt.Sprint("quiet/", sent)
		at[name+"/0"] = time.Now()
		s.send(t.Context(), fmt.Sprint("tenant-", r.IntN(f.quiet)), name, 1)
		sent++
	}
	all.Wait()
	time.Sleep(5 * time.Second) // for the last ones
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, from := range at {
		if end, ok := s.handled[id]; ok {
			took = append(took, end.Sub(from))
		}
	}
	slices.Sort(took)
	return took, sent
}

// at returns a quantile.
func at(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// A quiet tenant doesn't wait for another one that floods the queue. With MILLRACE_FLOOD=full the load is that of
// docs/lanes.md, for one queue, for lanes, and for lanes of which none is put aside; that takes minutes.
func TestAQuietTenantBesideAFlood(t *testing.T) {
	t.Parallel()
	f := flood{quiet: 200, each: 0.1, lasts: 20 * time.Second, noise: 4000, within: 4 * time.Second, crew: 4, takes: 20 * time.Millisecond}
	arrangements := map[string][]channel.Route{"8 lanes": {channel.Lanes(purchases, 8)}}
	full := os.Getenv("MILLRACE_FLOOD") == "full"
	if full {
		f = flood{quiet: 200, each: 0.4, lasts: 2 * time.Minute, noise: 50_000, within: 10 * time.Second, crew: 4, takes: 10 * time.Millisecond}
		arrangements["one queue"], arrangements["16 lanes"] = nil, []channel.Route{channel.Lanes(purchases, 16)}
	}
	for name, routes := range arrangements {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, sent := f.run(t, routes...)
				t.Logf("%d of %d: p50 %v, p99 %v, p99.9 %v, max %v", len(took), sent, at(took, 0.5), at(took, 0.99), at(took, 0.999), took[len(took)-1])
				if routes == nil {
					return
				}
				if len(took) < sent {
					t.Errorf("%d of %d messages of quiet tenants were handled", len(took), sent)
				}
				if p99, most := at(took, 0.99)-f.takes, took[len(took)-1]; p99 > 50*time.Millisecond || most > 5*time.Second {
					t.Errorf("quiet tenants waited up to %v, and 1 in 100 longer than %v", most, p99)
				}
			})
		})
	}
}

// all counts the messages that were handled.
func (s *shop) all() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handled)
}
