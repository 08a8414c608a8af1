package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/active"
)

// world is one run.
type world struct {
	t     *testing.T
	plan  plan
	store *storage.Store // without faults
	began time.Time

	succeeds atomic.Bool // stubborn commands succeed from now on
	quiet    atomic.Bool // faults are over

	mu        sync.Mutex
	history   []string             // under mu
	first     map[string]time.Time // of a decision, by command; under mu
	notes     map[string]int       // effects outside, by command; under mu
	acked     map[string]bool      // acknowledged sends, by ID and sort; under mu
	sent      map[string]book      // attempted sends, by ID and sort; under mu
	discarded map[string]bool      // by the operator, by ID; under mu
	ordered   map[string]bool      // attempted orders; whether they were acknowledged; under mu
	dues      map[string]time.Time // of deliveries, by ID; under mu
	failures  []string             // what must not happen; under mu
}

// process is a process of a worker or of the web: its memory ends with it.
type process struct {
	world    *world
	name     string
	old      bool // runs the previous version
	store    *storage.Store
	fuse     *storagetest.Fuse
	channels *channel.Channels
}

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	w := &world{
		t: t, plan: p, store: s, began: time.Now(), first: map[string]time.Time{}, notes: map[string]int{},
		acked: map[string]bool{}, sent: map[string]book{}, discarded: map[string]bool{}, ordered: map[string]bool{}, dues: map[string]time.Time{},
	}
	if p.plain {
		w.store = storagetest.Plain(s)
	}
	return w
}

// tell adds a line to the history.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%9.3fs  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) firstSeen(command string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first[command].IsZero() {
		w.first[command] = time.Now()
	}
	return w.first[command]
}

func (w *world) noted(command string) {
	w.tell("the world outside hears of %s", command)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[command]++
}

// log puts a process's log lines into the history.
func (w *world) log(process string) *slog.Logger {
	return slog.New(slog.NewTextHandler(lines(func(s string) { w.tell("%s: %s", process, s) }), &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type lines func(string)

func (l lines) Write(p []byte) (int, error) {
	l(strings.TrimSpace(string(p)))
	return len(p), nil
}

// newProcess makes the memory of a process. A schedule of single calls applies to the first process only.
func (w *world) newProcess(name string, first, old bool) *process {
	p := &process{world: w, name: name, old: old}
	chances := w.plan.chances
	if name == webName {
		chances = withoutCrashes(chances)
	}
	random := storagetest.Seeded(w.plan.seed^hash(name), chances)
	p.store, p.fuse = storagetest.Disturb(w.store, storagetest.Disturbance{
		Delay: w.plan.delay, Outage: w.plan.delay,
		Schedule: func(op storagetest.Op) storagetest.Fault {
			switch {
			case w.quiet.Load():
				return storagetest.NoFault
			case w.plan.schedule == nil:
				return random(op)
			case first:
				return w.plan.schedule(op)
			}
			return storagetest.NoFault
		},
		Trace: func(op storagetest.Op, f storagetest.Fault, err error) {
			boring := op.Name == "receive" || op.Name == "stats" || op.Name == "extend"
			switch {
			case f != storagetest.NoFault:
				w.tell("%s: %s %s: %s (%v)", name, op.Name, op.Resource, f, err)
			case !boring:
				w.tell("%s: %s %s: %v", name, op.Name, op.Resource, err)
			}
		},
	})
	return p
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// live runs a worker in the process until ctx ends or the process dies.
func (p *process) live(ctx context.Context) {
	h, err := p.register()
	if err != nil {
		p.world.failed("%s: %v", p.name, err)
		return
	}
	queues := map[string]worker.QueueConfig{}
	for _, q := range h.Queues() {
		often := worker.QueueConfig{PollInterval: 20 * time.Second}
		if p.world.plan.consumers > 0 {
			often.Turn = active.Workers(p.world.plan.consumers)
		}
		queues[q] = often
	}
	wk, err := worker.New(h, worker.Config{
		Name: p.name, Concurrency: 4, MaxDeliveries: 40, Visibility: p.world.plan.visibility, Queues: queues, Logger: p.world.log(p.name),
		RetryDelay: func(int, string) time.Duration { return time.Minute },
	})
	if err != nil {
		p.world.failed("%s: %v", p.name, err)
		return
	}
	stopped := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.fuse.C():
			p.world.tell("%s is dead", p.name)
		case <-ctx.Done():
		}
		cancel()
	}()
	p.world.tell("%s begins", p.name)
	trouble := p.world.disturbed()
	// A faulty store may refuse the start, and a stop may meet a slow decision that takes longer than the worker
	// waits.
	err = wk.Run(ctx)
	trouble = p.world.disturbed() || trouble && err != nil && strings.HasPrefix(err.Error(), "worker: start")
	if err != nil && !p.fuse.Fired() && !trouble && stopped.Err() == nil {
		p.world.failed("%s: Run: %v", p.name, err)
	}
	p.world.tell("%s has ended", p.name)
}

func (w *world) disturbed() bool { return !w.quiet.Load() }

// failed notes an event that must not happen.
func (w *world) failed(format string, args ...any) {
	w.tell(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}
