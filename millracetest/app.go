package millracetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// An App is a program that runs in a test: a store in a file, and one worker. The test's goroutine uses it, and a
// handler may call Kill.
type App struct {
	t        *testing.T
	program  Program
	store    *storage.Store
	recorder *recorder
	channels *channel.Channels // of the test
	queues   []string          // that the program handles
	log      *slog.Logger
	seen     map[string]bool // the poison entries that the test has looked at
	all      sync.WaitGroup  // workers

	mu     sync.Mutex
	worker *process // nil while it is stopped; under mu

	fence sync.Mutex // see pass
}

// pass orders what the test and the reactions do, for the race detector: whatever a reaction did before the test's last
// call of a method is seen by the test, and the other way round. So a fake needs no lock for the test's sake.
func (a *App) pass() {
	a.fence.Lock()
	defer a.fence.Unlock()
}

// watch passes before and after each reaction.
func (a *App) watch(*post.Handling, bool) (done func(error)) {
	a.pass()
	return func(error) { a.pass() }
}

// process is one worker.
type process struct {
	fuse  *storagetest.Fuse
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read it after ended
}

// Run runs a test of a program in virtual time, with a worker on a store in a temporary file. t belongs to the test's
// bubble; see testing/synctest. The test fails if a message is in a poison queue at the end and the test has not looked
// at it.
func Run(t *testing.T, p Program, test func(t *testing.T, app *App)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &App{t: t, program: p, seen: map[string]bool{}}
		a.store, a.recorder = record(worldtest.OpenStore(t, worldtest.Virtual))
		a.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		var err error
		if a.channels, err = p.channels(a.store); err != nil {
			t.Fatal(err)
		}
		defer a.end()
		a.Start()
		test(t, a)
	})
}

// end stops the worker and looks for messages in the poison queues.
func (a *App) end() {
	a.t.Helper()
	a.Stop()
	a.all.Wait()
	for _, e := range poisoned(a.t, a.channels) {
		if !a.seen[e.Queue+"/"+e.Key] {
			a.t.Errorf("the test didn't expect this, or it would have called Poison: %s", describe(e))
		}
	}
}

// Channels returns channels on the store, such as a web process has.
func (a *App) Channels() *channel.Channels { return a.channels }

// Store returns the store.
func (a *App) Store() *storage.Store { return a.store }

// Send sends messages of any kinds as one unit of work.
func (a *App) Send(messages ...channel.Message) {
	a.t.Helper()
	a.pass()
	if err := a.channels.Send(a.t.Context(), messages...); err != nil {
		a.t.Fatal(err)
	}
}

// patience is the virtual time after which work that doesn't end is a failure.
const patience = 24 * time.Hour

// Drain waits until nothing is left to do. Messages that are not due stay: those of channel.After and channel.At. A
// message that has failed is tried again, so time passes until its attempts are spent.
func (a *App) Drain() {
	a.t.Helper()
	a.pass()
	defer a.pass()
	step := time.Millisecond
	for began := time.Now(); ; step = min(2*step, time.Second) {
		synctest.Wait()
		left, stopped := a.left()
		switch {
		case len(left) == 0:
			return
		case stopped:
			a.t.Fatalf("millracetest: Drain: the worker is stopped, and messages are left: %v", left)
		case time.Since(began) > patience:
			a.t.Fatalf("millracetest: Drain: after %v messages are still left: %v", patience, left)
		}
		_ = worldtest.Pause(a.t.Context(), step)
	}
}

// left counts the messages that are due or were, by queue, in the queues that the program handles. stopped says that no worker
// runs.
func (a *App) left() (left map[string]int64, stopped bool) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	left = map[string]int64{}
	for _, q := range a.queues {
		st, err := a.store.Queue(q).Stats(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		if n := st.Ready + st.InFlight + max(0, st.Delayed-a.recorder.waiting(q)); n > 0 {
			left[q] = n
		}
	}
	return left, a.worker == nil
}

// Advance lets time pass, and then drains. What becomes due meanwhile is handled when it is due.
func (a *App) Advance(d time.Duration) {
	a.t.Helper()
	a.pass()
	_ = worldtest.Pause(a.t.Context(), d)
	a.Drain()
}

// Poison lists the messages in the poison queues. The test expects those that it has seen here.
func (a *App) Poison() []poison.Entry {
	a.t.Helper()
	all := poisoned(a.t, a.channels)
	for _, e := range all {
		a.seen[e.Queue+"/"+e.Key] = true
	}
	return all
}

// Start starts a worker, with a memory of its own, unless one runs. Run has started the first one.
func (a *App) Start() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.worker != nil {
		return
	}
	if err := a.start(); err != nil {
		a.t.Fatal(err)
	}
}

// start starts a worker. a.mu is held.
func (a *App) start() error {
	p := &process{ended: make(chan struct{})}
	var store *storage.Store
	store, p.fuse = storagetest.Disturb(a.store, storagetest.Disturbance{})
	h, err := a.program.register(store, a.log, a.watch)
	if err != nil {
		return err
	}
	a.queues = h.Queues()
	queues := map[string]worker.QueueConfig{}
	for _, q := range a.queues {
		c := a.program.Queues[q]
		if c.PollInterval == 0 {
			c.PollInterval = time.Hour // the store rings, so that days pass fast
		}
		queues[q] = c
	}
	w, err := worker.New(h, worker.Config{Name: "millracetest", Queues: queues})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(a.t.Context()))
	p.stop, a.worker = stop, p
	a.all.Go(func() {
		defer close(p.ended)
		p.err = w.Run(ctx)
	})
	return nil
}

// Stop stops the worker in order. Messages wait until Start.
func (a *App) Stop() {
	a.t.Helper()
	a.mu.Lock()
	p := a.worker
	a.worker = nil
	a.mu.Unlock()
	if p == nil {
		return
	}
	p.stop()
	a.pass()
	if <-p.ended; p.err != nil {
		a.t.Errorf("the worker stops: %v", p.err)
	}
}

// Restart stops the worker in order, and starts another one.
func (a *App) Restart() {
	a.t.Helper()
	a.Stop()
	a.Start()
}

// Kill ends the worker as a power failure does, and starts another one. What the dead worker had in hand comes to the
// other one when its visibility ends. A handler that runs in the dead one goes on, because Go can't end it, but nothing
// that it does reaches the store. A handler may call Kill.
func (a *App) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.worker == nil {
		return
	}
	a.worker.fuse.Fire()
	a.worker.stop()
	a.worker = nil
	if err := a.start(); err != nil {
		a.t.Errorf("the worker after Kill: %v", err)
	}
}
