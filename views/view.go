package views

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// Config is how a view works. The zero Config works. [View.Check], the registration of a projection, and every read
// report what is wrong with it.
type Config[V any] struct {
	// Initial returns the view before its first event. Defaults to the zero V.
	Initial func(key string) V

	// Fresh is how long a document is read from memory before the store is asked whether it has changed.
	// Negative means always ask. Defaults to 1 second.
	Fresh time.Duration

	// Cache is how many documents are kept in each of three memories: for readers, as each Handler serves them, and for
	// folding. Defaults to 4096.
	Cache int

	// CacheBytes bounds each of these memories by the bytes that its documents take in the store (or as they are served).
	// In memory they take a few times as much. A document larger than CacheBytes is read each time. Defaults to 32 MiB.
	CacheBytes int

	// Logger gets the errors that Handler doesn't tell its client. Defaults to that of the channels.
	Logger *slog.Logger

	// CacheControl is sent by Handler. Defaults to "no-cache": browsers keep a copy and revalidate it.
	CacheControl string
}

// folded is a view as it is stored.
type folded[V any] struct {
	View V `json:"view"`

	// Sources has the newest sequence folded per source, for Latest.
	Sources map[string]uint64 `json:"sources,omitempty"`
}

// A View is a collection of documents folded from events. Its name is also the name of its subscriber group, whose
// queue the events arrive in. Safe for concurrent use.
type View[V any] struct {
	docs    *values.Collection[folded[V]]
	cfg     Config[V]
	cache   *lru.Cache[*cached[V]]
	lines   seldom.Lines // of cfg.Logger
	keeping sync.Mutex   // held while a cached document is replaced
	reads   singleflight.Group
	start   time.Time // times are counted from here, so that a clock that is set back makes nothing fresh again
}

// New returns the view of a name.
func New[V any](channels *channel.Channels, name string, cfg Config[V]) *View[V] {
	if cfg.Initial == nil {
		cfg.Initial = func(string) (v V) { return v }
	}
	if cfg.Fresh == 0 {
		cfg.Fresh = time.Second
	}
	if cfg.CacheControl == "" {
		cfg.CacheControl = "no-cache"
	}
	if cfg.Logger == nil {
		cfg.Logger = channels.Logger()
	}
	return &View[V]{
		docs: values.New(channels, name, values.Config[folded[V]]{
			Initial: func(key string) folded[V] { return folded[V]{View: cfg.Initial(key)} },
			Cache:   cfg.Cache, CacheBytes: cfg.CacheBytes, // the collection reports faults of these
		}),
		cfg: cfg, cache: lru.New[*cached[V]](cfg.Cache, cfg.CacheBytes), start: time.Now(),
	}
}

// Name returns the view's name.
func (v *View[V]) Name() string { return v.docs.Name() }

// Check reports a name that can't be used, a V that can't be stored, and every fault of the Config.
func (v *View[V]) Check() error { return v.docs.Check() }

// Keys yields the keys of the documents that have folded an event, in byte order: those that begin with prefix and are
// above after. Both may be empty. So a page begins after the last key of the page before; see [values.Collection.Keys].
// A document that is deleted meanwhile is read as its initial view.
func (v *View[V]) Keys(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return v.docs.Keys(ctx, prefix, after)
}

// Project registers an order-free fold of an event into the view's document that key names. fold is pure; see
// handlers.Decide for what it may change.
func Project[V any, E channel.Message](r *handlers.Registry, v *View[V], key func(E) string, fold func(V, E) V) {
	register(r, v, key, fold, func(f folded[V], _ *channel.Envelope, m E) (folded[V], []channel.Message, error) {
		f.View = fold(f.View, m)
		return f, nil, nil
	})
}

// Latest registers a fold of events that take each other back. It ignores an event that is older than what the document
// has seen from the event's source. Register all kinds of one source that concern the same thing by Latest. An event
// without a source sequence can't be judged and goes to the poison queue.
//
// An event that was emitted with a delay (channel.After) is as old as the decision that emitted it. It is ignored if
// the document has seen a later one of its source when it comes. To show that a time has come, let the value object
// take the delayed message (handlers.On, or handlers.Decide for a command) and emit a new event.
func Latest[V any, E channel.Message](r *handlers.Registry, v *View[V], key func(E) string, fold func(V, E) V) {
	register(r, v, key, fold, func(f folded[V], e *channel.Envelope, m E) (folded[V], []channel.Message, error) {
		if e.Sequence == 0 {
			return f, nil, handlers.Poison("no sequence", fmt.Errorf("%s from %s has no sequence; views.Latest needs one", e.Kind, e.Source))
		}
		return f.take(e.Source, e.Sequence, func(view V) V { return fold(view, m) }), nil, nil
	})
}

// register registers a projection, which folds events by fold. The registry reports a fold that is nil.
func register[V any, E channel.Message](r *handlers.Registry, v *View[V], key func(E) string, fold func(V, E) V,
	project func(folded[V], *channel.Envelope, E) (folded[V], []channel.Message, error)) {
	if v == nil {
		r.Inside().Faults.Add(fmt.Errorf("project %s: the view is nil", channel.KindOf[E]()))
		return
	}
	if fold == nil {
		project = nil
	}
	var keyOf func(*channel.Envelope, E) (string, bool) // the registry reports one that is nil
	if key != nil {
		keyOf = func(_ *channel.Envelope, m E) (string, bool) { return key(m), true }
	}
	handling.Fold(r.Inside(), handling.As{View: true}, "project "+v.Name(), v.Name(), v.docs, keyOf, project)
}

// take folds a source's event of a sequence, unless the view has seen a newer one.
func (f folded[V]) take(source string, sequence uint64, fold func(V) V) folded[V] {
	if sequence <= f.Sources[source] {
		return f
	}
	f.View = fold(f.View)
	if f.Sources == nil {
		f.Sources = map[string]uint64{}
	}
	f.Sources[source] = sequence
	return f
}

// Rebuild folds the present state of every value object of a collection into a view whose projections are registered by
// Latest. key names the document. restore makes the document agree with the value object. Rebuild may run while workers
// do; repeating it is harmless. To rebuild from nothing, call [View.Clear] first. It returns how many value objects it
// read.
func Rebuild[V, C any](ctx context.Context, v *View[V], from *values.Collection[C], key func(key string, value C) string, restore func(view V, key string, value C) V) (int, error) {
	n := 0
	for id, err := range from.Keys(ctx, "", "") {
		if err != nil {
			return n, fmt.Errorf("views: rebuild %s: %w", v.Name(), err)
		}
		object, err := from.Get(ctx, id, "")
		if err != nil {
			return n, fmt.Errorf("views: rebuild %s: %w", v.Name(), err)
		}
		n++
		if object.Emitted == 0 {
			continue // it has emitted no event yet
		}
		err = v.docs.Update(ctx, key(id, object.Value), func(f folded[V]) (folded[V], bool) {
			if object.Emitted <= f.Sources[from.Source(id)] {
				return f, false
			}
			return f.take(from.Source(id), object.Emitted, func(view V) V { return restore(view, id, object.Value) }), true
		})
		if err != nil {
			return n, fmt.Errorf("views: rebuild %s: %w", v.Name(), err)
		}
	}
	return n, nil
}

// Clear deletes all documents of the view. Views registered by [Project] lose what they have folded; those
// registered by [Latest] can be rebuilt.
func (v *View[V]) Clear(ctx context.Context) error {
	for key, err := range v.docs.Keys(ctx, "", "") {
		if err == nil {
			err = v.docs.Delete(ctx, key)
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("views: clear %s: %w", v.Name(), err)
		}
	}
	v.cache.Clear()
	return nil
}

// Delete deletes the document of a key, if there is one. An event that comes later begins a new one. So it is for a
// document whose events have all come.
func (v *View[V]) Delete(ctx context.Context, key string) error {
	if err := v.docs.Delete(ctx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("views: delete %s: %w", v.Name(), err)
	}
	v.cache.Take(key)
	return nil
}
