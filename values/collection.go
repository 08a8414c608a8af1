package values

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// Why a message can't be applied, for errors.Is.
var (
	ErrContentDiffers = errors.New("another message with the same ID and other content has been applied")
	ErrTooOld         = errors.New("the message is too old to tell whether it has been applied")
	ErrContended      = errors.New("others kept changing the document")
)

// Config is how a collection works. The zero Config works.
type Config[V any] struct {
	// Initial gives the value of a document before its first message. Defaults to the zero V.
	Initial func(key string) V

	// Window is how many applied messages a document remembers by itself at least; it holds up to twice as
	// many before the oldest become rows. A larger window makes every write larger, a smaller one makes
	// late messages cost a read. Defaults to 32.
	Window int

	// Retention is how long messages are recognised after they have left the window. Defaults to 30 days.
	Retention time.Duration

	// PendingAfter is the age at which events that were written but perhaps not sent are sent by whoever
	// writes the document next. It should be a few visibilities. Defaults to 2 minutes.
	PendingAfter time.Duration

	// Cache is how many documents are kept in memory, so that a process that wrote a document last need not
	// read it again. Defaults to 1024.
	Cache int

	// MaxRaces is how often a lost race is repeated at once before the messages are handed back.
	// Defaults to 10.
	MaxRaces int
}

// A Collection keeps documents of one kind under keys (see [storage.CheckKey]). Safe for concurrent use; two
// Apply for one key at the same time race, and one of them repeats its work.
type Collection[V any] struct {
	name     string
	channels *channel.Channels
	blobs    storage.Blobs
	rows     storage.Table
	cfg      Config[V]
	cache    *lru.Cache[string, *document[V]]
	atomic   bool
}

// New returns the collection of a name. The documents are blobs in the container of that name; rows of older
// messages are in the table NAME-applied.
func New[V any](channels *channel.Channels, name string, cfg Config[V]) *Collection[V] {
	if cfg.Initial == nil {
		cfg.Initial = func(string) (v V) { return v }
	}
	cfg.Window = orDefault(cfg.Window, 32)
	cfg.Retention = orDefault(cfg.Retention, 30*24*time.Hour)
	cfg.PendingAfter = orDefault(cfg.PendingAfter, 2*time.Minute)
	cfg.Cache = orDefault(cfg.Cache, 1024)
	cfg.MaxRaces = orDefault(cfg.MaxRaces, 10)
	cache, _ := lru.New[string, *document[V]](cfg.Cache) // fails for a size below 1 only
	store := channels.Store()
	return &Collection[V]{
		name: name, channels: channels, cfg: cfg, cache: cache,
		blobs: store.Blobs(name), rows: store.Table(name + "-applied"), atomic: store.Props().Atomic,
	}
}

func orDefault[T int | time.Duration](v, or T) T {
	if v <= 0 {
		return or
	}
	return v
}

// Name returns the collection's name.
func (c *Collection[V]) Name() string { return c.name }

// Check reports a name that can't be used.
func (c *Collection[V]) Check() error {
	if err := storage.CheckName(c.name + "-applied"); err != nil {
		return fmt.Errorf("values: collection %s: %w", storage.Quote(c.name), err)
	}
	return nil
}

// Source returns the source of the events that a document emits.
func (c *Collection[V]) Source(key string) string { return "/" + c.name + "/" + url.PathEscape(key) }

// Snapshot is a document as it was stored at some time.
type Snapshot[V any] struct {
	Value   V
	Version uint64       // messages applied; 0 before the first write
	Emitted uint64       // events emitted
	ETag    storage.ETag // "" before the first write
}

// Get reads a document; before the first write that is the initial value. With ifNoneMatch set to the present
// ETag it returns [storage.ErrNotModified].
func (c *Collection[V]) Get(ctx context.Context, key string, ifNoneMatch storage.ETag) (Snapshot[V], error) {
	d, err := c.read(ctx, key, ifNoneMatch)
	if err != nil {
		return Snapshot[V]{}, err
	}
	return Snapshot[V]{Value: d.value, Version: d.version, Emitted: d.emitted, ETag: d.etag}, nil
}

// Keys yields the keys of all documents, in byte order.
func (c *Collection[V]) Keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range c.blobs.List(ctx, "") {
			if !yield(info.Key, err) || err != nil {
				return
			}
		}
	}
}

// Update changes a document outside of any message, as a rebuild does. f may be called several times; when it
// returns false nothing is written. There is no replay record of it: f must be harmless to repeat.
func (c *Collection[V]) Update(ctx context.Context, key string, f func(V) (V, bool)) error {
	races := c.newRaces()
	for {
		d, err := c.read(ctx, key, "")
		if err != nil {
			return err
		}
		v, changed := f(d.value)
		if !changed {
			return nil
		}
		d.value = v
		d.version++
		body, err := d.encode()
		if err != nil {
			return fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
		}
		_, err = c.blobs.Put(ctx, key, body, d.condition())
		if err == nil || !storage.LostRace(err) {
			return err
		}
		if err := races.wait(ctx); err != nil {
			return fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
		}
	}
}

// Delete removes a document with its whole record, rows excepted: messages that it has applied may be applied
// again if they come back. It is for views that are rebuilt.
func (c *Collection[V]) Delete(ctx context.Context, key string) error {
	c.cache.Remove(key)
	return c.blobs.Delete(ctx, key, storage.Condition{})
}

func (d *document[V]) condition() storage.Condition {
	return storage.Condition{IfMatch: d.etag, IfAbsent: d.etag == ""}
}

// take returns the document to change: from memory, or as it is stored. Whoever takes a remembered document owns
// it, because changing its value may change what the value refers to.
func (c *Collection[V]) take(ctx context.Context, key string, cached bool) (d *document[V], remembered bool, err error) {
	if cached {
		if d, ok := c.cache.Get(key); ok && c.cache.Remove(key) {
			return d, true, nil // of two that got it only one removed it
		}
	}
	d, err = c.read(ctx, key, "")
	return d, false, err
}

func (c *Collection[V]) read(ctx context.Context, key string, ifNoneMatch storage.ETag) (*document[V], error) {
	blob, err := c.blobs.Get(ctx, key, ifNoneMatch)
	if errors.Is(err, storage.ErrNotFound) {
		return &document[V]{value: c.cfg.Initial(key)}, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := decodeDocument[V](blob)
	if err != nil {
		return nil, fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
	}
	return d, nil
}
