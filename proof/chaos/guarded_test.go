package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// outing is a command with which a message's handler makes one call of a service outside.
type outing struct{ N int }

func (outing) Kind() channel.Kind { return "chaos.outing.v1" }

const outings = "outings"

// An outside service is real, and behind a wire.
type outside interface {
	// under makes it ready for calls under a guard.
	under(g *guard.Guard)

	// call makes one call for a message. It notes in the try what it sends.
	call(ctx context.Context, id string, t *try) error

	// done returns how often the service has done the call of each message.
	done() map[string]int
}

// A try is one call, or the question whether it was done, as its caller sees it.
type try struct {
	id   string
	sent atomic.Bool // bytes of the call were written to the service
	kind guard.Kind  // by the guard's judgement
}

// A guarded is a queue whose handlers call a service under a guard, with a real store, worker and service.
type guarded struct {
	t       *testing.T
	wire    *wire
	service outside
	guard   *guard.Guard
	store   *storage.Store
	poison  *poison.Queue
	sender  *channel.Sender[outing]
	ctx     context.Context // ends a test that would hang

	mu    sync.Mutex
	ids   int
	tries []*try // under mu
}

// newGuarded starts a worker. Of Config, it sets what makes a test quick: a breaker that probes often, and no repeats
// within a handler, so that each delivery is one try.
func newGuarded(t *testing.T, w *wire, service outside, cfg guard.Config) *guarded {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errTimeout)
	t.Cleanup(cancel)
	quiet := slog.New(slog.DiscardHandler)
	judge := cfg.Fault
	cfg.Fault = func(err error) guard.Fault {
		f := judge(err)
		f.NotInPlace = true
		return f
	}
	cfg.Probe, cfg.Logger = guard.Probe{First: 50 * time.Millisecond, Most: 200 * time.Millisecond}, quiet
	l := &guarded{t: t, wire: w, service: service, guard: guard.New("outside", cfg), ctx: ctx}
	service.under(l.guard)
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var err error
	l.store, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "store.db"))
	must(err)
	routes, err := channel.NewRoutes(channel.Command[outing](outings))
	must(err)
	channels, err := channel.New(l.store, routes, "/chaos")
	must(err)
	l.sender, err = channel.NewSender[outing](channels)
	must(err)
	l.poison = poison.At(channels, outings)
	h := handlers.NewRegistry(channels, handlers.Config{Logger: quiet})
	handlers.React(h, outings, l.handle)
	// A worker that stops waits for its calls. Those of a test that has failed may hang.
	work, err := worker.New(h, worker.Config{Logger: quiet, DrainTimeout: time.Second, Queues: map[string]worker.QueueConfig{outings: {Limiter: l.guard.Limiter}}})
	must(err)
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error)
	go func() { ended <- work.Run(working) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !t.Failed() {
			t.Error(err)
		}
		_ = l.store.Close()
	})
	return l
}

// handle makes one try.
func (l *guarded) handle(ctx context.Context, _ outing) error {
	e, _, _ := channel.Handled(ctx)
	made := &try{id: e.ID}
	err := l.guard.Do(ctx, func(ctx context.Context) error { return l.service.call(ctx, e.ID, made) })
	var fault *guard.Error
	if errors.As(err, &fault) {
		made.kind = fault.Fault.Kind
	}
	if !errors.Is(err, guard.ErrOpen) { // else there was none
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tries = append(l.tries, made)
	}
	return err
}

// send sends n messages.
func (l *guarded) send(n int) {
	l.t.Helper()
	all := make([]outing, n)
	for i := range all {
		l.ids++
		all[i].N = l.ids
	}
	if err := l.sender.Send(l.ctx, all...); err != nil {
		l.t.Fatal(err)
	}
}

// judged returns how many calls were judged to be of a kind so far.
func (l *guarded) judged(k guard.Kind) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.tries {
		if x.kind == k {
			n++
		}
	}
	return n
}

// until waits until something is so.
func (l *guarded) until(what string, so func() bool) {
	l.t.Helper()
	if err := until(l.ctx, patience, func() (bool, error) { return so(), nil }); err != nil {
		l.t.Fatalf("%s: %v; %s", what, err, l.state())
	}
}

func (l *guarded) state() string {
	stats, err := l.store.Queue(outings).Stats(context.WithoutCancel(l.ctx))
	text := fmt.Sprintf("queue %+v (%v), limits %+v, %d messages done", stats, err, l.limits(), len(l.service.done()))
	for k := guard.Done; k <= guard.Mine; k++ {
		text += fmt.Sprintf(", %d %v", l.judged(k), k)
	}
	return text
}

// limits are those of the guard's turn: none while its breaker is closed.
func (l *guarded) limits() worker.Limits {
	turn, err := l.guard.Limiter(context.WithoutCancel(l.ctx), worker.Consumer{})
	if err != nil {
		l.t.Fatal(err)
	}
	limits, _ := turn.Now()
	return limits
}

// untilOpen waits until the breaker is open.
func (l *guarded) untilOpen() {
	l.t.Helper()
	l.until("the breaker opens", func() bool { return l.limits().Pause })
}

// disturb adds a disturbance of toxiproxy's to the wire until over is called.
func (l *guarded) disturb(toxic, stream string, with map[string]any) (over func()) {
	l.t.Helper()
	end, err := l.wire.add(toxic, stream, with)
	if err != nil {
		l.t.Fatal(err)
	}
	return func() {
		l.t.Helper()
		if err := end(l.ctx); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *guarded) up() {
	l.t.Helper()
	if err := l.wire.up(); err != nil {
		l.t.Fatal(err)
	}
}

// lost are the messages in the poison queue, with their reasons.
func (l *guarded) lost() map[string]string {
	l.t.Helper()
	all := map[string]string{}
	for e, err := range l.poison.List(l.ctx) {
		if err != nil {
			l.t.Fatal(err)
		}
		all[e.ID] = e.Reason
	}
	return all
}

// ends waits until the service has done every message but lost ones, and the queue is empty, and the breaker closed. Then
// it checks the laws that hold whatever the wire did. everyUnknown are as many as have an unknown outcome.
func (l *guarded) ends(lost int) {
	l.t.Helper()
	defer func() {
		if l.t.Failed() {
			l.t.Log(l.state())
		}
	}()
	l.until("all messages end", func() bool {
		stats, err := l.store.Queue(outings).Stats(l.ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		return stats.Ready+stats.InFlight+stats.Delayed == 0
	})
	l.until("the breaker closes", func() bool { return l.limits() == worker.Limits{} })
	if lost == everyUnknown {
		lost = l.judged(guard.Unknown)
	}
	if got := len(l.lost()); got != lost {
		l.t.Errorf("%d messages are in the poison queue, want %d: %v", got, lost, l.lost())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unknown := map[string]int{}
	for _, x := range l.tries {
		switch x.kind {
		case guard.Unknown:
			unknown[x.id]++
		case guard.Permanent, guard.Mine:
			l.t.Errorf("a call was judged as %v; the service refuses none, and nobody ends a handler", x.kind)
		}
	}
	done := l.service.done()
	for id, n := range done {
		if n > 1+unknown[id] {
			l.t.Errorf("message %s was done %d times, after %d calls whose outcome was unknown", id, n, unknown[id])
		}
	}
	if got := len(done); got < l.ids-lost {
		l.t.Errorf("%d messages are done, want %d", got, l.ids-lost)
	}
}

// some are enough messages for all steps by which a breaker closes.
const some = 120
