package settings

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// Settings are a T that changes while the program runs. The methods may be called concurrently.
type Settings[T any] struct {
	book
	cfg      Config
	shape    *shape[T]
	id       string
	now      atomic.Pointer[T]
	state    atomic.Pointer[published]
	listed   atomic.Bool   // its row has been written
	restart  chan struct{} // closed when a setting waits for a restart
	woken    chan struct{} // capacity 1: look now
	stop     context.CancelFunc
	ended    <-chan struct{} // closed by stop
	measured func()          // ends the metrics
	all      sync.WaitGroup  // its own goroutines

	mu        sync.Mutex
	changing  []func(ctx context.Context, from, to T) error
	observers []*observer[T]
	looked    chan struct{} // closed after a look
}

// A Source is where a node has its values from.
type Source string

// The sources of values.
const (
	FromStore    Source = "store"
	FromCache    Source = "cache"    // the store did not answer when the node started
	FromDefaults Source = "defaults" // nobody has ever set anything, or the node started offline
)

// State is what a node runs.
type State struct {
	Version int64         // 0: the defaults
	Epoch   int64         // writes of the current document, at the last look; 0: there is none
	Source  Source        // where the values are from
	Since   time.Time     // when they were applied, by this machine's clock
	Age     time.Duration // since the store last answered a look; since Open, if it never did
	Waiting []string      // settings that wait for a restart, by their names in JSON
	Staged  bool          // Version is being rolled out, and may be taken back
	Fault   string        // why the version in force isn't running here; empty: it is, as far as the last look tells
}

// published is a State before its age is known.
type published struct {
	State
	answered time.Time
}

// Open reads the settings of a name (see storage.CheckName), and begins to follow them until Close. T is a struct that
// JSON can hold. Defaults are what holds where nobody has set anything.
//
// While the store doesn't answer, Open uses the cache, and else returns an error within 10 seconds, unless
// [Config.Offline] is set. It also returns an error if the version in force is none that this program can run. An end
// of ctx ends Open only.
func Open[T any](ctx context.Context, store *storage.Store, name string, defaults T, cfg Config) (*Settings[T], error) {
	b, errBook := newBook(store, name)
	cfg, errConfig := cfg.withDefaults()
	shape, errShape := newShape(defaults)
	if err := errors.Join(errBook, errConfig, errShape); err != nil {
		return nil, fmt.Errorf("settings: open %s: %w", storage.Quote(name), err)
	}
	cfg.Logger = cfg.Logger.With(slog.String("settings", name))
	s := &Settings[T]{
		book: b, cfg: cfg, shape: shape, id: rand.Text(), restart: make(chan struct{}), woken: make(chan struct{}, 1), looked: make(chan struct{}),
	}
	f := &follower[T]{Settings: s, nodes: newWatch(b), failing: map[string]bool{}, probing: &atomic.Bool{}, stable: -1, making: -1}
	if err := f.begin(ctx); err != nil {
		return nil, b.fail("open", err)
	}
	if err := s.measure(); err != nil {
		return nil, b.fail("open", errors.Join(err, s.remove(ctx, s.id)))
	}
	following, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, following.Done()
	s.all.Go(func() { f.follow(following) })
	s.all.Go(func() { s.listen(following) })
	return s, nil
}

// Now returns what is in force here. It must not be changed. It is one atomic load, and never nil.
func (s *Settings[T]) Now() *T { return s.now.Load() }

// State tells what this node runs, and how old its knowledge is.
func (s *Settings[T]) State() State {
	p := s.state.Load()
	st := p.State
	st.Age = time.Since(p.answered)
	st.Waiting = slices.Clone(st.Waiting)
	return st
}

// Changing has f called before this node agrees to a change, with what it runs now and what it would run. An error is a
// no: then the change comes into force nowhere. So is a panic, and a call that doesn't return within [Config.Patience].
// Its ctx ends then. f isn't called when somebody goes back to an earlier version, nor for a change that came into
// force while this node didn't answer. The secrets in to are resolved. A nil f says yes. Call Changing right after
// Open: the node answers from then on, without f until it knows that.
func (s *Settings[T]) Changing(f func(ctx context.Context, from, to T) error) {
	if f == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changing = append(s.changing, f)
}

// Changed has f called after each change of what this node runs, with what it was called with before and what runs
// now. Call Changed first and Now after it, so that no change comes between. Calls of one f don't overlap. While a call
// goes on, f may miss versions, but never the newest. A call that panics is logged, and one that hangs holds up no
// other f. A nil f is not called.
func (s *Settings[T]) Changed(f func(from, to T)) {
	if f == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, &observer[T]{f: f, told: s.now.Load()})
}

// Restart returns a channel that is closed once a setting with the tag settings:"restart" waits for the process to
// start again; [State].Waiting names it. Use coord/lease to let one node restart at a time. Such a setting takes no
// part in a roll-out: it waits from the end of that on.
func (s *Settings[T]) Restart() <-chan struct{} { return s.restart }

// Close ends the following: Now stays as it is. Nobody waits for this node's answer any more; after an error that takes
// as long as after a death. Close ignores the end of ctx, because ctx has often ended already.
func (s *Settings[T]) Close(ctx context.Context) error {
	s.stop()
	s.all.Wait()
	s.measured()
	if err := s.remove(context.WithoutCancel(ctx), s.id); err != nil {
		return s.fail("close", err)
	}
	return nil
}

// An observer is a function given to Changed.
type observer[T any] struct {
	f    func(from, to T)
	told *T   // what it knows
	busy bool // a call goes on
}

// tellObservers lets the observers know what runs now.
func (s *Settings[T]) tellObservers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.observers {
		if !o.busy {
			o.busy = true
			go s.tellObserver(o)
		}
	}
}

func (s *Settings[T]) tellObserver(o *observer[T]) {
	for {
		s.mu.Lock()
		from, to := o.told, s.now.Load()
		o.told = to
		if o.busy = from != to; !o.busy {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := contain.Apart(func() error { o.f(*from, *to); return nil }); err != nil {
			s.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "a function given to Changed fails", slog.Any("error", err))
		}
	}
}
