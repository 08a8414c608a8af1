package scale

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// A scenario is one run.
type scenario struct {
	name     string
	workers  int           // processes
	queues   int           // for commands; as many for events
	accounts int           // that the queues are spread over; 0 is one
	keys     int           // value objects, and views
	hot      float64       // share of the commands that goes to one key; the others are spread evenly
	zipf     float64       // instead, the keys follow Zipf's law with this exponent, above 1
	commands int           //
	rate     float64       // of commands a second that come in; 0 is a backlog that exists before the workers start
	work     time.Duration // how long the outside system takes for each event; 0 is a view instead
	limits   limits        // of each account; the zero limits are the documented ones
	seed     uint64
	single   bool          // one worker at a time consumes a queue, except for events with work
	config   worker.Config // of each worker; zero is the default
}

func (s scenario) String() string { return s.name }

const (
	webs     = 4               // processes that send
	again    = 2 * time.Second // until a user whose command was refused tries again
	longest  = 12 * time.Hour  // of virtual time
	watching = time.Second
	telling  = 5 * time.Minute // of virtual time: progress lines of a long run
)

// sample is the state at a second.
type sample struct {
	at            time.Duration
	waiting, seen int64 // messages in all queues; commands in their views
}

type world struct {
	scenario
	t        *testing.T
	services []*service
	shards   []shard
	key      []int // of each command
	progress *progress
	refused  atomic.Int64 // sends that the store refused after all attempts
	says     complaints
	samples  []sample
}

// complaints counts log lines of the processes, by text.
type complaints struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c *complaints) WithGroup(string) slog.Handler                { return c }
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[r.Message]++
	return nil
}

// run runs a scenario in virtual time.
func run(t *testing.T, s scenario) (r result) {
	t.Helper()
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		if s.rate == 0 {
			w.free(true)
			w.send(ctx)
			w.free(false)
			w.progress.epoch = time.Now()
		}
		for i := range s.workers {
			all.Go(func() { w.work(ctx, i) })
		}
		if s.rate > 0 {
			all.Go(func() { w.send(ctx) })
		}
		w.watch()
		stop()
		all.Wait()
		r = w.result()
		w.audit(t.Context())
	})
	r.real = time.Since(real)
	return r
}

func newWorld(t *testing.T, s scenario) *world {
	if s.limits == (limits{}) {
		s.limits = documented()
	}
	s.accounts = max(1, s.accounts)
	w := &world{scenario: s, t: t, progress: newProgress(s.commands), key: make([]int, s.commands), says: complaints{n: map[string]int{}}}
	for i := range s.accounts {
		w.services = append(w.services, newService(s.seed*1000+uint64(i), s.limits, usual()))
	}
	for i := range s.queues {
		w.shards = append(w.shards, newShard(i))
	}
	r := rand.New(rand.NewPCG(s.seed, 1))
	draw := func() int { return r.IntN(s.keys) }
	if s.zipf > 0 {
		z := rand.NewZipf(r, s.zipf, 1, uint64(s.keys-1))
		draw = func() int { return int(z.Uint64()) }
	}
	for i := range w.key {
		if r.Float64() >= s.hot {
			w.key[i] = draw()
		}
	}
	return w
}

func (w *world) free(yes bool) {
	for _, s := range w.services {
		s.mu.Lock()
		s.free = yes
		s.mu.Unlock()
	}
}

// shardOf is the shard of a key. It is always the same, so that few workers meet at one document.
func (w *world) shardOf(key int) int {
	h := fnv.New32a()
	fmt.Fprint(h, key)
	return int(h.Sum32() % uint32(w.queues))
}

// stores are the accounts as one process sees them.
func (w *world) stores() []*storage.Store {
	var all []*storage.Store
	for _, s := range w.services {
		all = append(all, s.open())
	}
	return all
}

func (w *world) channels(stores []*storage.Store, shard int) *channel.Channels {
	c, err := w.shards[shard].channels(stores[shard%w.accounts])
	if err != nil {
		w.t.Error(err)
	}
	return c
}

// work is the process of a worker. It serves every n-th shard, where n is the number of workers; with more workers
// than shards it serves one.
func (w *world) work(ctx context.Context, process int) {
	stores := w.stores()
	var all sync.WaitGroup
	log := slog.New(&w.says)
	for i := process % w.queues; i < w.queues; i += w.workers {
		c := w.channels(stores, i)
		cfg := w.config
		cfg.Name, cfg.Logger = fmt.Sprintf("worker%d", process), log
		if w.single {
			one := worker.QueueConfig{Limiter: limiters.Workers(1)}
			cfg.Queues = map[string]worker.QueueConfig{w.shards[i].commands: one}
			if w.scenario.work == 0 {
				cfg.Queues[w.shards[i].events] = one
			}
		}
		wk, err := worker.New(w.shards[i].register(c, log, w.progress, w.scenario.work), cfg)
		if err != nil {
			w.t.Error(err)
			return
		}
		all.Go(func() {
			for ctx.Err() == nil { // if the store refuses the start, the worker is started again, as by a supervisor
				if wk.Run(ctx) != nil {
					_ = worldtest.Pause(ctx, again)
				}
			}
		})
	}
	all.Wait()
}

// send sends all commands, at their rate or at once, and returns when the last one is durable.
func (w *world) send(ctx context.Context) {
	var processes [webs][]*channel.Sender[count]
	for i := range processes {
		stores := w.stores()
		for j := range w.shards {
			s, err := channel.NewSender[count](w.channels(stores, j))
			if err != nil {
				w.t.Error(err)
				return
			}
			processes[i] = append(processes[i], s)
		}
	}
	one := func(i int) {
		c := count{ID: worldtest.IDAt(time.Now(), i), N: i, Key: fmt.Sprintf("key-%06d", w.key[i])}
		sender := processes[i%webs][w.shardOf(w.key[i])]
		if w.rate > 0 { // a backlog counts from the start of the workers
			w.progress.sent[i].Store(w.progress.now())
		}
		for sender.Send(ctx, c) != nil && ctx.Err() == nil {
			w.refused.Add(1)
			_ = worldtest.Pause(ctx, again)
		}
	}
	if w.rate == 0 {
		for i := range w.commands {
			one(i)
			_ = worldtest.Pause(ctx, time.Millisecond) // so that their IDs have different times, as in practice
		}
		return
	}
	var users sync.WaitGroup
	r := rand.New(rand.NewPCG(w.seed, 2))
	next := time.Now()
	for i := range w.commands {
		next = next.Add(time.Duration(r.ExpFloat64() / w.rate * float64(time.Second)))
		_ = worldtest.Pause(ctx, time.Until(next))
		users.Go(func() { one(i) })
	}
	users.Wait()
}

// watch returns when every command is in its view and no message is left.
func (w *world) watch() {
	for began := time.Now(); time.Since(began) < longest; {
		_ = worldtest.Pause(context.Background(), watching)
		s := sample{at: time.Since(began), seen: w.progress.done.Load()}
		for _, x := range w.services {
			x.mu.Lock()
			for _, q := range x.queues {
				s.waiting += int64(len(q.byID))
			}
			x.mu.Unlock()
		}
		w.samples = append(w.samples, s)
		if s.at%telling == 0 {
			w.t.Logf("    after %v: %d commands in their views, %d messages wait", s.at, s.seen, s.waiting)
		}
		if s.waiting == 0 && s.seen == int64(w.commands) {
			return
		}
	}
	w.t.Errorf("%s: not done after %v", w.name, longest)
}

// audit checks that every command counts exactly once.
func (w *world) audit(ctx context.Context) {
	w.free(true)
	want := map[string]int{}
	for _, k := range w.key {
		want[fmt.Sprintf("key-%06d", k)]++
	}
	stores := w.stores()
	var decided []*values.Collection[total]
	var shown []*views.View[total]
	for i, s := range w.shards {
		c := w.channels(stores, i)
		decided = append(decided, values.New(c, "totals", values.Config[total]{}))
		shown = append(shown, views.New(c, s.events, views.Config[total]{}))
	}
	seen := map[string]bool{}
	for _, k := range w.key {
		key := fmt.Sprintf("key-%06d", k)
		if seen[key] {
			continue
		}
		seen[key] = true
		i := w.shardOf(k)
		d, err := decided[i].Get(ctx, key, "")
		if err != nil || d.Value.Count != want[key] {
			w.t.Errorf("%s: %s has counted %d commands of %d: %v", w.name, key, d.Value.Count, want[key], err)
		}
		if w.scenario.work > 0 {
			continue
		}
		v, _, err := shown[i].GetFresh(ctx, key)
		if err != nil || v.Count != want[key] {
			w.t.Errorf("%s: %s shows %d commands of %d: %v", w.name, key, v.Count, want[key], err)
		}
	}
	for _, s := range w.services {
		if n := len(s.blobs["poison"]); n > 0 {
			w.t.Errorf("%s: %d messages are in the poison queue", w.name, n)
		}
	}
}

// texts are the complaints, the most frequent first.
func (c *complaints) texts() []string {
	texts := slices.SortedFunc(maps.Keys(c.n), func(a, b string) int { return c.n[b] - c.n[a] })
	for i, s := range texts {
		texts[i] = fmt.Sprintf("%d × %s", c.n[s], s)
	}
	return texts
}
