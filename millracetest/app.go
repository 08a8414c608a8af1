package millracetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/wire"
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

	faults storagetest.Disturbance // of the first worker
	guard  bool                    // a worker that ends by itself is followed by another one

	mu     sync.Mutex
	worker *running // nil while it is stopped; under mu

	fence sync.Mutex // see pass
}

// pass orders what the test and the reactions do, for the race detector: whatever a reaction did before the test's last
// call of a method is seen by the test, and the other way round. So a fake needs no lock for the test's sake.
func (a *App) pass() {
	a.fence.Lock()
	defer a.fence.Unlock()
}

// watch passes before and after each reaction.
func (a *App) watch(*wire.Handling, bool) (done func(error)) {
	a.pass()
	return func(error) { a.pass() }
}

// running is one worker.
type running struct {
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
		w := faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), faulttest.Plan{Plain: p.InSteps})
		a := newApp(t, w.Store)
		defer a.end()
		a.begin(p)
		test(t, a)
	})
}

// newApp returns an App on a store, without a program.
func newApp(t *testing.T, s *storage.Store) *App {
	a := &App{t: t, seen: map[string]bool{}}
	a.store, a.recorder = record(s)
	a.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return a
}

// begin starts the first worker of a program.
func (a *App) begin(p Program) {
	a.t.Helper()
	c, err := p.channels(a.store)
	if err != nil {
		a.t.Fatal(err)
	}
	a.program, a.channels = p, c
	a.recorder.divide(c)
	a.Start()
}

// end stops the worker and looks for messages in the poison queues.
func (a *App) end() {
	a.t.Helper()
	a.Stop()
	a.all.Wait()
	if a.channels == nil {
		return
	}
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
// message that has failed is tried again, so time passes until its attempts are spent. The next attempt at a step of a
// process is a message that is not due, so it needs [App.Advance].
func (a *App) Drain() {
	a.t.Helper()
	a.pass()
	defer a.pass()
	for began := time.Now(); ; {
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
		_ = worldtest.Pause(a.t.Context(), max(time.Millisecond, time.Since(began)/8))
	}
}

// left counts the messages that are due or were, by queue, in the queues that the program handles. stopped says that no
// worker runs.
func (a *App) left() (left map[string]int64, stopped bool) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	left = map[string]int64{}
	for _, q := range a.queues {
		for _, lane := range lanesOf(a.channels, q) {
			st, err := a.store.Queue(lane).Stats(a.t.Context())
			if err != nil {
				a.t.Fatal(err)
			}
			if n := st.Ready + st.InFlight + max(0, st.Delayed-a.recorder.waiting(lane, all)); n > 0 {
				left[q] += n
			}
		}
	}
	return left, a.worker == nil
}

// Advance lets time pass, and then drains. Messages that become due meanwhile are handled when they are due.
func (a *App) Advance(d time.Duration) {
	a.t.Helper()
	a.pass()
	_ = worldtest.Pause(a.t.Context(), d)
	a.Drain()
}

// Wait lets time pass, and does not drain: some messages wait for what the test does next, such as those of a key that
// is halted.
func (a *App) Wait(d time.Duration) {
	a.t.Helper()
	a.pass()
	defer a.pass()
	_ = worldtest.Pause(a.t.Context(), d)
	synctest.Wait()
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
	p := &running{ended: make(chan struct{})}
	var store *storage.Store
	store, p.fuse = storagetest.Disturb(a.store, a.faults)
	a.faults = storagetest.Disturbance{}
	h, err := a.program.register(store, a.log, watches{reaction: a.watch})
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
	if a.guard {
		a.all.Go(func() { a.follow(p) })
	}
	return nil
}

// follow starts another worker when one ends by itself.
func (a *App) follow(p *running) {
	select {
	case <-p.ended:
	case <-p.fuse.C():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.worker == p {
		a.replace()
	}
}

// replace kills the worker and starts another one. a.mu is held.
func (a *App) replace() {
	a.worker.fuse.Fire()
	a.worker.stop()
	a.worker = nil
	if err := a.start(); err != nil {
		a.t.Errorf("the next worker: %v", err)
	}
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

// Kill ends the worker as a power failure does, and starts another one. Messages in the dead worker's hand come to
// the other one when their visibility ends. A handler that runs in the dead one goes on, because Go can't end it, but
// nothing that it does reaches the store. A handler may call Kill.
func (a *App) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.worker != nil {
		a.replace()
	}
}
