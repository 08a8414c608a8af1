package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// counter is a shop with one queue of priorities. The names of its jobs begin with their priority.
type counter struct {
	world

	mu      sync.Mutex
	running map[string]int // by priority
	most    map[string]int // that ran at a time
	all     int            // that ran at a time, of all priorities
	begun   []string
	at      map[string]time.Time // when a job began
}

func newCounter(t *testing.T, store *storage.Store, takes func(name string) time.Duration) *counter {
	t.Helper()
	c := &counter{running: map[string]int{}, most: map[string]int{}, at: map[string]time.Time{}}
	c.World = worldtest.NewBare(t, store, handlers.Config{Timeout: 24 * time.Hour}, channel.Command[job]("jobs"), channel.Priorities("jobs"))
	handlers.React(c.Registry, "jobs", func(ctx context.Context, j job) error {
		c.count(j.Name, 1)
		defer c.count(j.Name, -1)
		select {
		case <-time.After(takes(j.Name)):
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	return c
}

func (c *counter) count(name string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	priority, _, _ := strings.Cut(name, " ")
	c.running[priority] += by
	c.most[priority] = max(c.most[priority], c.running[priority])
	if priority != "high" {
		c.running["lower"] += by
		c.most["lower"] = max(c.most["lower"], c.running["lower"])
	}
	c.all = max(c.all, c.running["high"]+c.running["lower"])
	if by > 0 {
		c.begun = append(c.begun, name)
		c.at[name] = time.Now()
	}
}

// order lists the names of the jobs of a priority, in the order in which they began.
func (c *counter) order(priority string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, name := range c.begun {
		if strings.HasPrefix(name, priority) {
			all = append(all, name)
		}
	}
	return all
}

func (c *counter) mosts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return map[string]int{"low": c.most["low"], "lower": c.most["lower"], "all": c.all}
}

// send sends jobs from one number to another.
func (c *counter) send(t *testing.T, priority string, from, to int) {
	t.Helper()
	p := map[string]channel.Priority{"high": channel.High, "normal": channel.Normal, "low": channel.Low}[priority]
	var all []channel.Message
	for i := from; i < to; i++ {
		name := fmt.Sprintf("%s %05d", priority, i)
		all = append(all, job{ID: name, Name: name})
	}
	if err := c.Channels.Send(channel.WithPriority(t.Context(), p), all...); err != nil {
		t.Fatal(err)
	}
}

// reserving returns a Config of four handlers, of which some are reserved.
func reserving(r worker.Reserve) worker.Config {
	return worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 4, Reserve: r, Visibility: 10 * time.Minute}}}
}

// stores are a store that rings, and one that is only polled.
func stores() map[string]func(*storage.Store) *storage.Store {
	return map[string]func(*storage.Store) *storage.Store{
		"rings":  func(s *storage.Store) *storage.Store { return s },
		"polled": func(s *storage.Store) *storage.Store { return patient(storagetest.Plain(s), time.Second) },
		"billed": func(s *storage.Store) *storage.Store {
			return storagetest.WithProps(storagetest.Plain(s), func(p *storage.Props) { p.PollInterval, p.Billed, p.MaxReceive = time.Second, true, 32 })
		},
	}
}

// Of a worker's handlers, messages below the Reserve's priority hold at most the others at a time, whether messages are
// quick or slow. All are handled, each once, and those of one lane begin in order.
func TestLawReserveBoundsLowerMessages(t *testing.T) {
	for name, inner := range stores() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				quick := true
				c := newCounter(t, inner(worldtest.OpenStore(t, worldtest.Virtual)), func(string) time.Duration {
					if quick {
						return time.Millisecond
					}
					return time.Second
				})
				stop := c.Start(reserving(worker.Reserve{High: 1}))
				for round := range 2 { // the first one lets the worker hold more than it can run
					quick = round == 0
					n := []int{400, 50}[round]
					for _, p := range []string{"low", "normal", "high"} {
						c.send(t, p, 1000*round, 1000*round+n)
					}
					c.drained(t)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				most := c.mosts()
				worldtest.Want(t, "lower messages at a time", most["lower"], 3)
				worldtest.Want(t, "messages at a time", most["all"], 4)
				for _, p := range []string{"low", "normal", "high"} {
					began := c.order(p)
					worldtest.Want(t, p+" messages that began", len(began), 450)
					for i, sorted := 0, slices.Sorted(slices.Values(began)); i < len(began)-4; i++ {
						if began[i] > sorted[i+4] { // four begin at a time
							t.Fatalf("%s began in the place of %s", began[i], sorted[i])
						}
					}
				}
			})
		})
	}
}

// drained waits until no lane holds a message.
func (c *counter) drained(t *testing.T) {
	t.Helper()
	for range 10_000 {
		if worldtest.Queued(t, c.Channels.Store(), "jobs") == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the queue doesn't get empty")
}

// While slow messages of lower priorities hold all handlers that they may hold, an urgent message begins at once, also
// in a worker that holds many of them because they were quick before. Where one ends, the next one begins at once.
func TestLawReserveLetsUrgentMessagesBegin(t *testing.T) {
	parttest.InTurn(t)
	for name, inner := range stores() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newCounter(t, inner(worldtest.OpenStore(t, worldtest.Virtual)), func(name string) time.Duration {
					if strings.HasPrefix(name, "low") && name > "low 00400" {
						return 10 * time.Minute
					}
					return time.Millisecond
				})
				c.send(t, "low", 0, 440)
				c.Start(reserving(worker.Reserve{High: 1}))
				for round := range 3 {
					for len(c.order("low")) < 400+3*(round+1) {
						time.Sleep(time.Second)
					}
					time.Sleep(time.Minute)
					worldtest.Want(t, fmt.Sprintf("low messages in round %d", round), len(c.order("low")), 401+3*(round+1))
					sent := time.Now()
					c.send(t, "high", round, round+1)
					time.Sleep(time.Minute)
					c.mu.Lock()
					began, ok := c.at[fmt.Sprintf("high %05d", round)]
					c.mu.Unlock()
					atMost := map[string]time.Duration{"rings": 0, "polled": 3 * time.Second, "billed": 3 * time.Second}[name]
					if waited := began.Sub(sent); !ok || waited > atMost {
						t.Errorf("round %d: an urgent message began: %v, after %v; want %v at most", round, ok, waited, atMost)
					}
				}
			})
		})
	}
}

// Messages that can't run stay in the queue, for other workers. One that ends makes room for the next one at once,
// however seldom the queue is looked at.
func TestLawReserveLeavesOthersInTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCounter(t, patient(worldtest.OpenStore(t, worldtest.Virtual), 24*time.Hour), func(string) time.Duration { return 10 * time.Minute })
		c.send(t, "low", 0, 20)
		c.Start(reserving(worker.Reserve{High: 1}))
		time.Sleep(time.Second)
		st := stats(t, c.Channels.Store(), "jobs")
		worldtest.Want(t, "messages in hand", int(st.InFlight), 3)
		worldtest.Want(t, "messages that wait in the queue", int(st.Ready), 17)
		for round := range 4 {
			worldtest.Want(t, "messages that began", len(c.order("low")), 3*(round+1))
			time.Sleep(10*time.Minute + 100*time.Millisecond)
		}
	})
}

// Reserve.Normal keeps handlers from Low messages alone.
func TestLawReserveOfNormalBoundsLowMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCounter(t, worldtest.OpenStore(t, worldtest.Virtual), func(string) time.Duration { return 20 * time.Millisecond })
		c.Start(reserving(worker.Reserve{Normal: 2}))
		c.send(t, "low", 0, 100)
		c.drained(t)
		c.send(t, "normal", 0, 100)
		c.drained(t)
		c.mu.Lock()
		defer c.mu.Unlock()
		worldtest.Want(t, "low messages at a time", c.most["low"], 2)
		worldtest.Want(t, "normal messages at a time", c.most["normal"], 4)
	})
}

// Without urgent messages the others use all handlers but the reserved ones. Beside any number of urgent ones Low keeps
// its floor.
func TestLawReserveStarvesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCounter(t, worldtest.OpenStore(t, worldtest.Virtual), func(string) time.Duration { return 10 * time.Millisecond })
		c.Start(reserving(worker.Reserve{High: 1}))
		began := time.Now()
		c.send(t, "low", 0, 300)
		for len(c.order("low")) < 300 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 1500*time.Millisecond { // three handlers of 10 ms: a second
			t.Errorf("300 Low messages of 10 ms took %v with three of four handlers", took)
		}
		c.drained(t)
		c.send(t, "low", 1000, 1200)
		c.send(t, "high", 0, 1000)
		for len(c.order("high")) < 800 {
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(c.order("low")) - 300; n < 800/16 {
			t.Errorf("%d Low messages began beside 800 High ones; want some hundred", n)
		}
		c.drained(t)
	})
}

// squeeze is a limiter that lowers the number of handlers.
type squeeze struct{ to int }

func (s squeeze) Now() (worker.Limits, <-chan struct{}) {
	return worker.Limits{Concurrency: s.to}, nil
}
func (squeeze) Leave(context.Context) error { return nil }

// When a limiter leaves no more handlers than are reserved, one stays open to all.
func TestLawReserveLeavesOneHandlerToAll(t *testing.T) {
	for _, to := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newCounter(t, worldtest.OpenStore(t, worldtest.Virtual), func(string) time.Duration { return 10 * time.Millisecond })
				cfg := reserving(worker.Reserve{High: 3})
				q := cfg.Queues["jobs"]
				q.Limiter = func(context.Context, worker.Consumer) (worker.Limiter, error) { return squeeze{to}, nil }
				cfg.Queues["jobs"] = q
				c.Start(cfg)
				c.send(t, "low", 0, 20)
				c.send(t, "high", 0, 20)
				c.drained(t)
				most := c.mosts()
				worldtest.Want(t, "low messages at a time", most["low"], 1)
				worldtest.Want(t, "messages at a time", most["all"], to)
			})
		})
	}
}

// A Reserve that can't be kept is refused, with what to do.
func TestReserveIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reserve worker.Reserve
		routes  []channel.Route
		want    string
	}{
		{worker.Reserve{High: 4}, []channel.Route{channel.Priorities("jobs")}, "keeps 4 of 4 handlers"},
		{worker.Reserve{High: 40}, []channel.Route{channel.Priorities("jobs")}, "or raise Concurrency"},
		{worker.Reserve{High: -1}, []channel.Route{channel.Priorities("jobs")}, "Reserve.High is -1; want a positive number"},
		{worker.Reserve{Normal: -1}, []channel.Route{channel.Priorities("jobs")}, "Reserve.Normal is -1"},
		{worker.Reserve{High: 1, Normal: 1}, []channel.Route{channel.Priorities("jobs")}, "set one of them"},
		{worker.Reserve{High: 1}, nil, `add channel.Priorities("jobs") to the routes`},
		{worker.Reserve{High: 1}, []channel.Route{channel.Lanes("jobs", 2)}, `add channel.Priorities("jobs") to the routes`},
		{worker.Reserve{Normal: 3}, []channel.Route{channel.Priorities("jobs")}, ""},
	} {
		w := newBare(t, worldtest.OpenStore(t, worldtest.Virtual), append(c.routes, channel.Command[job]("jobs"))...)
		handlers.React(w.Registry, "jobs", func(context.Context, job) error { return nil })
		_, err := worker.New(w.Registry, reserving(c.reserve))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q", c.reserve, err, c.want)
		}
	}
}
