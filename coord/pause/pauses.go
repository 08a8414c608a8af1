package pause

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Pauses are the pauses of a store's queues. Its methods may be called concurrently.
type Pauses struct {
	store *storage.Store
	doc   agree.Document[document]
	cfg   Config
	now   func() time.Time // the wall clock
}

// New returns the pauses of a store. It makes no request. An error is about the store.
func New(store *storage.Store, cfg Config) (*Pauses, error) {
	if err := storecall.CheckStore(store); err != nil {
		return nil, fmt.Errorf("pause: %w", err)
	}
	return &Pauses{store: store, doc: documentOf(store), cfg: cfg.withDefaults(), now: time.Now}, nil
}

// A Pause keeps a queue from being consumed.
type Pause struct {
	Note
	Since time.Time // when the queue was paused, by the clock of the process that did it
	Until time.Time // when the pause ends by itself, by the same clock; zero: never
}

// Ring lets all watches that listen read the pauses again. Each worker has such a watch. So the error tells an operator
// of processes that listen and can't be reached from here: the error matches storage.ErrUnavailable, and names their
// addresses. Where the store doesn't ring, Ring does nothing.
func (p *Pauses) Ring(ctx context.Context) error {
	if err := agree.Ring(ctx, p.store, topic, nil); err != nil {
		return fmt.Errorf("pause: ring: %w", err)
	}
	return nil
}

// List returns the pauses by queue. Those that should have ended by this machine's clock are left out.
func (p *Pauses) List(ctx context.Context) (map[string]Pause, error) {
	var seen sighting
	if err := p.doc.Read(ctx, &seen); err != nil {
		return nil, fmt.Errorf("pause: list: %w", err)
	}
	all := map[string]Pause{}
	for queue, e := range seen.Doc.Pauses {
		if e.Until.IsZero() || e.Until.After(p.now()) {
			all[queue] = e.pause()
		}
	}
	return all, nil
}
