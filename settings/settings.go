package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// Settings are a T that changes while the program runs. The methods may be called concurrently.
type Settings[T any] struct {
	book     book
	cfg      *Config
	program  *program[T]
	node     *node
	loop     *agree.Loop
	looks    *looks
	measured func() // ends the metrics
	stop     context.CancelFunc
	ended    <-chan struct{} // closed by stop
	followed sync.WaitGroup  // the goroutine that looks at the store
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
	p := &program[T]{shape: shape, cfg: &cfg, making: none}
	f := newFollower(b, &cfg, p)
	p.beat = f.node.beat
	if err := f.begin(ctx); err != nil {
		return nil, b.fail("open", err)
	}
	s := &Settings[T]{book: b, cfg: &cfg, program: p, node: f.node, looks: &looks{next: make(chan struct{})}}
	s.loop = agree.NewLoop(store, topic, b.heeds, f.trouble, "changes of settings")
	var err error
	if s.measured, err = measure(cfg.Metrics, name, s.State); err != nil {
		return nil, b.fail("open", errors.Join(err, b.remove(ctx, f.node.id)))
	}
	following, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, following.Done()
	s.followed.Go(func() {
		s.loop.Run(following, func(ctx context.Context, _ bool) (again time.Duration, over bool) {
			again = f.look(ctx)
			s.looks.over()
			return again, false
		})
	})
	return s, nil
}

// Now returns what is in force here. It must not be changed. It is one atomic load, and never nil.
func (s *Settings[T]) Now() *T { return s.program.now.Load() }

// State tells what this node runs, and how old its knowledge is.
func (s *Settings[T]) State() State {
	p := s.node.state.Load()
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
	p := s.program
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changing = append(p.changing, f)
}

// Changed has f called after each change of what this node runs, with what it was called with before and what runs
// now. Call Changed first and Now after it, so that no change comes between. Calls of one f don't overlap. While a call
// goes on, f may miss versions, but never the newest. A call that panics is logged, and one that hangs holds up no
// other f. A nil f is not called.
func (s *Settings[T]) Changed(f func(from, to T)) {
	if f == nil {
		return
	}
	p := s.program
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observers = append(p.observers, &observer[T]{f: f, told: p.now.Load()})
}

// Restart returns a channel that is closed once a setting with the tag settings:"restart" waits for the process to
// start again; [State].Waiting names it. Use coord/lease to let one node restart at a time. Such a setting takes no
// part in a roll-out: it waits from the end of that on.
func (s *Settings[T]) Restart() <-chan struct{} { return s.node.restart }

// Close ends the following: Now stays as it is. Nobody waits for this node's answer any more; after an error that takes
// as long as after a death. Close ignores the end of ctx, because ctx has often ended already.
func (s *Settings[T]) Close(ctx context.Context) error {
	s.stop()
	s.followed.Wait()
	s.measured()
	if err := s.book.remove(context.WithoutCancel(ctx), s.node.id); err != nil {
		return s.book.fail("close", err)
	}
	return nil
}

// Propose changes what is in force, for all nodes. It calls change with a copy of that, perhaps more than once, and
// proposes what it has changed there. It returns when every live node has said yes and this node runs it, or with
// [ErrRefused] and the reasons when one has said no. It waits for a proposal that somebody else has made before, and
// gives change what is in force then.
//
// With [Config.Stages] it returns when every live node has said yes and the roll-out has begun: the result is
// [Rolling], and [Ledger.Await] tells the end. While a change is rolled out, another one is [ErrRolling].
//
// A change that this program itself can't run is an error, and one that changes nothing is [ErrUnchanged]; nothing is
// proposed then. After an end of ctx, an error of the store, or Close, the change may come into force later. A node
// that is closed proposes nothing; the error matches storage.ErrUnavailable.
func (s *Settings[T]) Propose(ctx context.Context, note Note, change func(*T)) (Ending, error) {
	p := newProposal(s.book, note)
	p.stages, p.make = s.cfg.Stages, func(values json.RawMessage) (tree, error) {
		t, err := s.program.shape.patch(ctx, values, change)
		if err != nil {
			return nil, err
		}
		next, err := encodeTree(t)
		if err != nil {
			return nil, err
		}
		_, err = within(ctx, s.cfg.Patience, "this program", func(context.Context) (*ready[T], error) { return s.program.shape.prepare(0, next, s.Now()) })
		return t, err
	}
	err := s.wait(ctx, func() bool { return s.node.listed.Load() && !s.closed() }) // it answers for itself
	if err != nil {
		return Ending{}, s.book.fail("propose a change of", err)
	}
	e, err := p.run(ctx)
	if err != nil {
		return e, s.book.fail("propose a change of", err)
	}
	if err := s.wait(ctx, func() bool { return s.State().Epoch >= e.Epoch }); err != nil {
		return e, s.book.fail("run the change of", err)
	}
	if fault := s.State().Fault; fault != "" {
		return e, s.book.fail("run the change of", errors.New(fault))
	}
	return e, nil
}

// errClosed is the error of a proposal whose node was closed.
var errClosed = fmt.Errorf("%w: these settings were closed", storage.ErrUnavailable)

// closed reports that Close was called.
func (s *Settings[T]) closed() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// wait waits until a look has made something true. It wakes the node once, and then each second.
func (s *Settings[T]) wait(ctx context.Context, is func() bool) error {
	again := time.NewTicker(soon)
	defer again.Stop()
	for wake := true; ; {
		looked := s.looks.coming()
		if is() {
			return nil
		}
		if wake {
			s.loop.Wake()
		}
		select {
		case <-looked:
			wake = false
		case <-again.C:
			wake = true
		case <-s.ended:
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
