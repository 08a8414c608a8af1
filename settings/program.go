package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// A program is a node's own code: it makes versions ready, and runs one of them. The fields before making may be used
// concurrently; the others belong to the goroutine that looks at the store.
type program[T any] struct {
	shape *shape[T]
	cfg   *Config
	beat  func(ctx context.Context) // called at each poll while the code runs: a slow node isn't a dead one
	now   atomic.Pointer[T]

	mu        sync.Mutex
	changing  []func(ctx context.Context, from, to T) error
	observers []*observer[T]

	making  int64           // the version of the last prepare; -1: none
	made    <-chan struct{} // closed when that has returned
	running *ready[T]
	before  *ready[T] // what ran before, while running is a candidate that is rolled out; else nil
	agreed  *ready[T] // the candidate that this program said yes to
}

// runs implements [code].
func (p *program[T]) runs() running {
	r := running{version: p.running.version, before: none, waiting: p.running.waiting, form: p.running.form, secrets: p.running.secrets}
	if p.before != nil {
		r.before, r.waiting = p.before.version, nil // in a roll-out no setting waits
	}
	return r
}

// begin implements [code].
func (p *program[T]) begin(version int64, values json.RawMessage) error {
	r, err := within(context.Background(), p.cfg.Patience, "this program", func(context.Context) (*ready[T], error) { return p.shape.prepare(version, values, nil) })
	if err == nil {
		p.running = r
		p.now.Store(r.runs)
	}
	return err
}

// ask implements [code].
func (p *program[T]) ask(ctx context.Context, version int64, values json.RawMessage) error {
	from := p.running.runs
	p.mu.Lock()
	asked := p.changing[:len(p.changing):len(p.changing)]
	p.mu.Unlock()
	r, err := p.patiently(ctx, func(ctx context.Context) (*ready[T], error) {
		r, err := p.shape.prepare(version, values, from)
		for _, f := range asked {
			if err == nil {
				err = f(ctx, *from, *r.runs)
			}
		}
		return r, err
	})
	if err == nil {
		p.agreed = r
	}
	return err
}

// take implements [code].
func (p *program[T]) take(ctx context.Context, version int64, values json.RawMessage) (err error) {
	r := p.agreed
	if r == nil || r.version != version || r.from != p.running.runs {
		if r, err = p.prepare(ctx, version, values, p.running.runs); err != nil {
			return err
		}
	}
	p.swap(ctx, r)
	return nil
}

// try implements [code].
func (p *program[T]) try(ctx context.Context, version int64, values json.RawMessage) error {
	before := p.running
	err := p.take(ctx, version, values)
	if err == nil {
		p.before = before
	}
	return err
}

// goBack implements [code].
func (p *program[T]) goBack(ctx context.Context) {
	p.swap(ctx, p.before)
	p.before = nil
}

// stay implements [code].
func (p *program[T]) stay() { p.before = nil }

// prepare makes a version ready. While a call for it from an earlier look goes on, there is no other one: a Check that
// hangs isn't called at each look.
func (p *program[T]) prepare(ctx context.Context, version int64, values json.RawMessage, from *T) (*ready[T], error) {
	if p.making == version {
		select {
		case <-p.made:
		default:
			return nil, fmt.Errorf("%w: this program has not returned since an earlier look", storage.ErrUnavailable)
		}
	}
	done := make(chan struct{})
	p.making, p.made = version, done
	return p.patiently(ctx, func(context.Context) (*ready[T], error) {
		defer close(done)
		return p.shape.prepare(version, values, from)
	})
}

// patiently calls the code within the node's patience, and beats meanwhile.
func (p *program[T]) patiently(ctx context.Context, f func(ctx context.Context) (*ready[T], error)) (*ready[T], error) {
	var value *ready[T]
	done := make(chan error, 1)
	go func() {
		var err error
		value, err = within(ctx, p.cfg.Patience, "this program", f)
		done <- err
	}()
	beats := time.NewTicker(p.cfg.Poll)
	defer beats.Stop()
	for {
		select {
		case err := <-done:
			return value, err
		case <-beats.C:
			p.beat(ctx)
		}
	}
}

// swap runs what is ready.
func (p *program[T]) swap(ctx context.Context, r *ready[T]) {
	p.running, p.agreed = r, nil
	p.now.Store(r.runs)
	p.tellObservers()
	p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "settings changed", slog.Int64("version", r.version), slog.Any("waiting", r.waiting))
}

// An observer is a function given to Changed.
type observer[T any] struct {
	f    func(from, to T)
	told *T   // what it knows
	busy bool // a call goes on
}

// tellObservers lets the observers know what runs now.
func (p *program[T]) tellObservers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.observers {
		if !o.busy {
			o.busy = true
			go p.tellObserver(o)
		}
	}
}

func (p *program[T]) tellObserver(o *observer[T]) {
	for {
		p.mu.Lock()
		from, to := o.told, p.now.Load()
		o.told = to
		if o.busy = from != to; !o.busy {
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if err := contain.Apart(func() error { o.f(*from, *to); return nil }); err != nil {
			p.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "a function given to Changed fails", slog.Any("error", err))
		}
	}
}
