package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Gate is closed until somebody opens it. Its methods may be called concurrently.
type Gate struct {
	store   *storage.Store
	doc     agree.Document[document]
	name    string
	fault   error // of the name or the Config
	cfg     Config
	metrics gateMetrics
	now     func() time.Time // the wall clock
}

// At returns the gate of a name, with the zero [Config]. A name is a key of a blob (see storage.CheckKey); the first
// call reports one that is no good. At makes no request.
func At(store *storage.Store, name string) *Gate {
	g, err := New(store, name, Config{})
	if err != nil {
		return &Gate{name: name, fault: err}
	}
	return g
}

// New is [At] with a Config. An error is about the store, the name or cfg.
func New(store *storage.Store, name string, cfg Config) (*Gate, error) {
	cfg, err := cfg.withDefaults(name)
	if err = errors.Join(storecall.CheckStore(store), err); err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	m, err := newMetrics(cfg.Metrics, name)
	if err != nil {
		return nil, fmt.Errorf("gate: metrics: %w", err)
	}
	return &Gate{store: store, doc: documentOf(store.Blobs(container), name), name: name, cfg: cfg, metrics: m, now: time.Now}, nil
}

// State is a gate at some moment.
type State struct {
	Open     bool
	OpensAt  time.Time // when a closed gate will open; zero if that was not announced
	Note               // of the last change. A gate that opened at an announced moment has the note of the announcement
	Since    time.Time // when the last change was made, by the clock of the process that made it
	Epoch    int64     // changes so far; 0 if nobody has opened or closed the gate
	Openings int64     // those changes that opened it
}

// Wait returns nil when the gate is open: at once, or when it opens. It also returns nil when the gate has been opened
// since Wait first looked at it, and was closed again. While the store fails, Wait goes on trying. When ctx ends, the
// error has its cause. An error of another kind is about the name, or a blob that is no gate.
func (g *Gate) Wait(ctx context.Context) error {
	if g.fault != nil {
		return g.fault
	}
	g.metrics.waiting.Inc()
	defer g.metrics.waiting.Dec()
	before := int64(math.MaxInt64) // openings at the first look
	var last error                 // of the looks
	for s, err := range g.watch(ctx, &last) {
		if err != nil {
			return g.fail("wait for", err)
		}
		if s.Open || s.Openings > before {
			return nil
		}
		before = min(before, s.Openings)
	}
	return g.fail("wait for", storecall.Ended(ctx, last))
}

// State looks at the gate. When the announced moment has come, State is one of those that open the gate, so it may
// write.
func (g *Gate) State(ctx context.Context) (State, error) {
	if g.fault != nil {
		return State{}, g.fault
	}
	var seen sighting
	if err := g.look(ctx, &seen); err != nil {
		return State{}, g.fail("look at", err)
	}
	return seen.Doc.state(), nil
}
