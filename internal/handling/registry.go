package handling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// A Registry holds what a program has registered. Its parts are whole: each can be used without the others.
type Registry struct {
	Channels *channel.Channels // that send what handlers emit
	Logger   *slog.Logger      // of the configuration; it survives its own panics
	Timeout  time.Duration     // of one run of a handler

	Handlers      *Table
	Turns         *QueueTurns
	Compensations *Compensations
	Hooks         *Hooks
	Optional      map[string]int    // from which level a queue waits, see handlers.Optional
	Guards        map[string]string // by queue, the guard that the queue's worker waits for; package host notes it
	Faults        *Faults

	// Wrap puts the middleware around the innermost function of a handler, once for each handler. It is set before
	// handlers are registered. Defaults to none.
	Wrap func(name string, inner func(context.Context, *Delivery) error) func(context.Context, *Delivery) error

	folders map[string]*folder    // by the collection's name
	judged  map[reflect.Type]bool // see WarnOfLoss
	kept    map[reflect.Type]any  // see Kept
}

// noTimeout is as good as no limit, and leaves room for verdict.GiveUpAfter.
const noTimeout = 100 * 365 * 24 * time.Hour

// New returns an empty registry for messages that come through channels' routes. A nil logger is that of the channels,
// and a timeout of 0 the default.
func New(channels *channel.Channels, logger *slog.Logger, timeout time.Duration) *Registry {
	if logger == nil {
		logger = channels.Logger()
	}
	if timeout == 0 {
		timeout = 5 * time.Minute
	}
	codec := new(wire.Codec)
	return &Registry{
		Channels: channels, Logger: contain.Logger(logger), Timeout: min(timeout, noTimeout),
		Handlers:      &Table{codec: codec, queues: map[string]map[wire.Kind]*Handler{}},
		Turns:         &QueueTurns{channels: channels, all: map[string]*turns{}},
		Compensations: &Compensations{codec: codec, all: map[poisonedAt]compensation{}},
		Hooks:         new(Hooks), Optional: map[string]int{}, Guards: map[string]string{}, Faults: new(Faults),
		folders: map[string]*folder{}, judged: map[reflect.Type]bool{}, kept: map[reflect.Type]any{},
	}
}

// Err returns all faults of the configuration and of the registered handlers, or nil.
func (r *Registry) Err() error {
	faults := slices.Concat(r.Faults.all, r.Compensations.unhandled(r.Handlers), unhandledOptional(r), r.Turns.faults(r.Handlers))
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("handlers: %w", errors.Join(faults...))
}

// unhandledOptional returns a fault for each optional queue that has no handler.
func unhandledOptional(r *Registry) (faults []error) {
	for _, queue := range slices.Sorted(maps.Keys(r.Optional)) {
		if len(r.Handlers.queues[queue]) == 0 {
			faults = append(faults, fmt.Errorf("optional %s: the queue has no handler", storage.Quote(queue)))
		}
	}
	return faults
}

// Kept returns what a package keeps with a registry: one T for each registry, which create makes at the first call.
func Kept[T any](r *Registry, create func() *T) *T {
	key := reflect.TypeFor[T]()
	if kept, ok := r.kept[key].(*T); ok {
		return kept
	}
	kept := create()
	r.kept[key] = kept
	return kept
}
