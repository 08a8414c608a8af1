package fleet

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	guards    = "guards"        // the container of the records, and the topic of their changes
	lookEvery = 5 * time.Second // at the record, while the breaker isn't closed
	probeTTL  = 6 * time.Second // of a prober that says nothing; it beats every third of that
	grace     = time.Second     // that other processes have to say that their calls are done
	callTime  = 2 * time.Second // of the store
	mostRaces = 20
	pauseStep = 100 * time.Millisecond // by which a pause is longer than another, or it isn't told
)

// AgainSoon is the time after which a call is tried again that the store has kept from its probe.
const AgainSoon = time.Second

// Breaker is that of this process. Update calls a function while nobody else has the machine, and then does what the
// machine asks for.
type Breaker interface {
	Update(func(m *breaker.Machine, now time.Time))
}

// Fleet is one process's part in the breaker of all processes. Its methods may be called concurrently.
type Fleet struct {
	ledger ledger
	b      Breaker
	id     string
	place  time.Duration // for which a call keeps a place at most

	forAll atomic.Bool // the record is open
	active atomic.Bool // the breaker isn't closed, or there is news

	mu      sync.Mutex
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // capacity 1
	hearing *storage.Registration
	probing bool
	right   uint64    // epoch of the breaker for which this process may probe
	till    time.Time // no other process may probe before; zero: none has a say
	verdict verdict

	io       chan struct{} // capacity 1: one request at a time; it guards the fields below, and the ledger
	reported time.Time     // when this process reported that it is ill; zero: it hasn't
	followed bool          // the record was open when it was seen last
	tries    int           // that it had then
	old      int64         // epoch of the record that this process found with reports when it started; 0: none
}

// New returns the part of a process that acts by itself, until [Fleet.Open]. A call keeps a place of the breaker for a
// time at most.
func New(name string, b Breaker, place time.Duration, log func() *slog.Logger) *Fleet {
	return &Fleet{ledger: ledger{name: name, log: log}, b: b, id: rand.Text(), place: place}
}

// Shared reports that the process acts with the others.
func (f *Fleet) Shared() bool { return f.ledger.store.Load() != nil }

// ForAll reports that the breaker is open for all processes, as far as this one knows.
func (f *Fleet) ForAll() bool { return f.forAll.Load() }

// Active reports that calls are to claim the right to probe: the breaker isn't closed, or there is news.
func (f *Fleet) Active() bool { return f.active.Load() }

// Damaged reports that the document can't be read, and wasn't replaced yet.
func (f *Fleet) Damaged() bool { return f.ledger.bad.Load() }

// Open begins to act with the others, unless it does. It listens if the store rings.
func (f *Fleet) Open(ctx context.Context, s *storage.Store, listen bool) {
	f.mu.Lock()
	if f.ledger.store.CompareAndSwap(nil, s) {
		f.ctx, f.stop = context.WithCancel(context.Background())
		if f.io == nil { // else a claim may still hold it
			f.wake, f.io = make(chan struct{}, 1), make(chan struct{}, 1) // here, because a guard may be older than a bubble of synctest
		}
	}
	s, deaf := f.ledger.store.Load(), f.hearing == nil
	f.mu.Unlock()
	if listen && deaf && s.Rings() {
		ctx, cancel := storecall.Limit(ctx, callTime)
		defer cancel()
		if h, err := s.Subscribe(ctx, guards, f.hear); err == nil { // else it looks every few seconds while its breaker is open
			f.mu.Lock()
			if f.hearing == nil && f.ledger.store.Load() == s {
				f.hearing, h = h, nil
			}
			f.mu.Unlock()
			if h != nil { // the limiter of another queue was quicker, or all have left
				h.Close()
			}
		}
	}
	f.hurry()
}

// Close ends all that runs. The breaker goes on by itself.
func (f *Fleet) Close() {
	f.mu.Lock()
	if f.ledger.store.Swap(nil) == nil {
		f.mu.Unlock()
		return
	}
	f.stop()
	h := f.hearing
	f.hearing = nil
	f.mu.Unlock()
	if h != nil {
		h.Close()
	}
	f.running.Wait()
}

// hear is the fleet's receiver of rings.
func (f *Fleet) hear(name []byte, most int) int {
	if string(name) != f.ledger.name {
		return 0
	}
	if most != 0 {
		f.ledger.rung.Store(true)
		f.hurry()
	}
	return 1
}

// hurry looks at the record soon, and goes on while the breaker isn't closed.
func (f *Fleet) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it will look
	}
	if !f.Shared() || f.active.Load() {
		return
	}
	f.active.Store(true)
	ctx := f.ctx
	f.running.Go(func() { f.tend(ctx) })
}

// On notes what has happened to the breaker.
func (f *Fleet) On(e breaker.Event) {
	f.mu.Lock()
	if f.probing && e.Kind != breaker.Overdue && e.Kind != breaker.CallsFail {
		f.probing = false
		switch e.Kind {
		case breaker.Recovers:
			f.verdict = done
		case breaker.Inconclusive:
			f.verdict = freed
		default:
			f.verdict = failed
		}
	}
	rung := f.hearing != nil
	f.mu.Unlock()
	if e.Kind != breaker.CallsFail || !rung {
		f.hurry()
	}
}

// tend keeps the record and the breaker in accord, until the breaker is closed and the record says nothing of this
// process.
func (f *Fleet) tend(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-f.wake:
		default:
		}
		quiet, pause := f.step(ctx)
		if quiet && f.rest() {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	f.active.Store(false)
}

// rest ends the tending, unless there is news.
func (f *Fleet) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wake) > 0 {
		return false
	}
	f.active.Store(false)
	return true
}

// view returns what the breaker shows of itself.
func (f *Fleet) view() (v breaker.View) {
	f.b.Update(func(m *breaker.Machine, now time.Time) { v = m.View(now) })
	return v
}
