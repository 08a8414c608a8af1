package values

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// These errors say why a message can't be applied, for errors.Is.
var (
	ErrContentDiffers = errors.New("another message with the same ID and other content has been applied")
	ErrTooOld         = errors.New("the message is too old to tell whether it has been applied")
	ErrContended      = errors.New("others kept changing the document")
)

// ErrUnchanged is returned by a fold that changes nothing and emits nothing. Its message is done: nothing is written on
// its behalf, and no record is kept of it. Another copy of it is folded again. The fold must not have changed the maps
// and slices of the value.
var ErrUnchanged = errors.New("the message changes nothing")

// Config is how a collection works. The zero Config works. [Collection.Check] and every read of a document report
// negative fields.
type Config[V any] struct {
	// Initial returns the value of a document before its first message. Its maps and slices must be new each time, because
	// decisions may change them. Defaults to the zero V.
	Initial func(key string) V

	// Idempotent reports that folding a message again changes nothing and emits nothing, because the value itself tells
	// what was applied. The record has no entry of such a message, so it is folded whenever it comes, however late. It
	// looks at the envelope alone, and always gives the same answer for a message. Defaults to none.
	Idempotent func(e *channel.Envelope) bool

	// Window is how many applied messages a document remembers by itself at least. It holds up to twice as many, and those
	// of the last write besides, before the oldest become rows. A larger window makes every write larger. A smaller one
	// makes late messages cost a read. Defaults to 32.
	Window int

	// Retention is how long after its time a message is recognised that has left the window, and how far apart the times
	// of two sends of one key may be. Defaults to 30 days.
	Retention time.Duration

	// PendingAfter is the age at which the next writer of a document sends emissions that were written but perhaps not
	// sent. It should be a few visibilities. Defaults to 2 minutes.
	PendingAfter time.Duration

	// Cache is how many documents are kept in memory. A process that wrote a document last need not read it again.
	// Defaults to 4096.
	Cache int

	// CacheBytes bounds the documents in memory by the bytes that they take in the store, all together. In memory they
	// take a few times as much. A document larger than CacheBytes is read each time. Defaults to 32 MiB.
	CacheBytes int

	// MaxRaces is how often a lost race is repeated at once before the messages are handed back.
	// Defaults to 10.
	MaxRaces int
}

// withDefaults returns a complete copy, or an error with every fault of the Config.
func (c Config[V]) withDefaults() (Config[V], error) {
	var faults []error
	def := func(name string, v *int, d int) {
		if *v == 0 {
			*v = d
		}
		if *v < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want a positive number", name, *v))
		}
	}
	defTime := func(name string, v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
		if *v < 0 {
			faults = append(faults, fmt.Errorf("%s is %v; want a positive time", name, *v))
		}
	}
	if c.Initial == nil {
		c.Initial = func(string) (v V) { return v }
	}
	if c.Idempotent == nil {
		c.Idempotent = func(*channel.Envelope) bool { return false }
	}
	def("Window", &c.Window, 32)
	defTime("Retention", &c.Retention, defaultRetention)
	defTime("PendingAfter", &c.PendingAfter, 2*time.Minute)
	def("Cache", &c.Cache, lru.DefaultEntries)
	def("CacheBytes", &c.CacheBytes, lru.DefaultBytes)
	def("MaxRaces", &c.MaxRaces, 10)
	return c, errors.Join(faults...)
}

// A Collection keeps documents of one kind under keys (see [storage.CheckKey]). Safe for concurrent use. Two calls of
// Apply for one key at the same time race, and one of them repeats its work.
type Collection[V any] struct {
	name     string
	channels *channel.Channels
	blobs    *storage.Blobs
	rows     *storage.Table
	cfg      Config[V]
	fault    error // of the name, of cfg, or of V
	cache    *lru.Cache[*document[V]]
	exact    *jsonform.Exact // tells which values need no decoding to be what decoding gives
	asIs     bool            // none does
	atomic   bool
	billed   bool
	absent   atomic.Int32 // how many keys in a row were not stored yet when they were read to be changed
}

// guessAfter is the number of new keys in a row after which the next unknown key counts as new, too, without a read.
// When that is wrong, the write is refused and the document is read. At most one write in guessAfter is wasted.
const guessAfter = 8

// rowsSuffix and the collection's name before it name the table of its older entries.
const rowsSuffix = "-applied"

// New returns the collection of a name. The documents are blobs in the container of that name; rows of older
// messages are in the table NAME-applied. [Collection.Check] reports what is wrong, as does the start of a program of
// package host.
func New[V any](channels *channel.Channels, name string, cfg Config[V]) *Collection[V] {
	return newCollection(channels, name, cfg, false)
}

// NewKept is New for this module's own packages: the name is one of those that the framework keeps for itself.
func NewKept[V any](_ wire.Inside, channels *channel.Channels, name string, cfg Config[V]) *Collection[V] {
	return newCollection(channels, name, cfg, true)
}

func newCollection[V any](channels *channel.Channels, name string, cfg Config[V], keeps bool) *Collection[V] {
	cfg, fault := cfg.withDefaults()
	if _, err := jsonform.Check(reflect.TypeFor[V]()); err != nil {
		fault = errors.Join(fault, err)
	}
	fault = errors.Join(checkName(name, keeps), fault)
	store := channels.Store()
	c := &Collection[V]{
		name: name, channels: channels, cfg: cfg, fault: fault, cache: lru.New[*document[V]](cfg.Cache, cfg.CacheBytes),
		exact: jsonform.ExactOf(reflect.TypeFor[V]()),
		blobs: store.Blobs(name), rows: store.Table(name + rowsSuffix), atomic: store.Atomic(), billed: store.Props().Billed,
	}
	note(store, c.Check())
	return c
}

// AsIs is for this module's own packages: the values of the collection always come back from JSON as they are, or as
// what their folds take for the same. So no fold needs to look. It returns the collection.
func (c *Collection[V]) AsIs(wire.Inside) *Collection[V] {
	c.asIs = true
	return c
}

// kept are the containers that the framework has in each store.
var kept = []string{"claims", "counters", "gates", "guards", "lanes", "leases", "pauses", "poison", "programs", "quorum", "schedules", "settings", "shares", "spool"}

// checkName refuses a name that can't be used, and one under which the framework stores something else.
func checkName(name string, keeps bool) error {
	if !keeps && slices.Contains(kept, name) {
		return fmt.Errorf("%w: the framework keeps this name for itself; choose one that is none of %s", storage.ErrInvalid, strings.Join(kept, ", "))
	}
	return cmp.Or(storage.CheckName(name), storage.CheckName(name+rowsSuffix))
}

// Name returns the collection's name.
func (c *Collection[V]) Name() string { return c.name }

// Idempotent reports what Config.Idempotent says of a message.
func (c *Collection[V]) Idempotent(e *channel.Envelope) bool { return c.cfg.Idempotent(e) }

// Check reports a name that can't be used, a V that can't be stored, and every fault of the Config.
func (c *Collection[V]) Check() error {
	if c.fault != nil {
		return fmt.Errorf("values: collection %s: %w", storage.Quote(c.name), c.fault)
	}
	return nil
}

// Source returns the source of the messages that a document emits.
func (c *Collection[V]) Source(key string) string { return "/" + c.name + "/" + url.PathEscape(key) }

// Snapshot is a document as it was stored at some time.
type Snapshot[V any] struct {
	Value   V
	Version uint64       // messages applied; 0 before the first write
	Emitted uint64       // messages emitted
	ETag    storage.ETag // "" before the first write
	Size    int          // bytes in the store; 0 before the first write
}

// Get reads a document. Before the first write it returns the initial value. If ifNoneMatch is the present ETag, it
// returns [storage.ErrNotModified].
func (c *Collection[V]) Get(ctx context.Context, key string, ifNoneMatch storage.ETag) (Snapshot[V], error) {
	d, err := c.read(ctx, key, ifNoneMatch)
	if err != nil {
		return Snapshot[V]{}, err
	}
	return Snapshot[V]{Value: d.value, Version: d.version, Emitted: d.emitted, ETag: d.etag, Size: d.size}, nil
}

// Keys yields the keys of the documents, in byte order: those that begin with prefix and are above after. Both may be
// empty. So a page begins after the last key of the page before. A listing is no snapshot. Its error is yielded last
// and once. [storage.Blobs.ListAfter] says what a late page costs.
func (c *Collection[V]) Keys(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range c.blobs.ListAfter(ctx, prefix, after) {
			if !yield(info.Key, err) || err != nil {
				return
			}
		}
	}
}

// Update changes a document outside of any message, as a rebuild does. f may be called several times. When it returns
// false, nothing is written. Update leaves no replay record, so f must be harmless to repeat.
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
		d.version++
		var body []byte
		if d.value, d.form, err = c.settle(v); err == nil {
			body, err = d.encode()
		}
		if err != nil {
			return fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
		}
		_, err = c.blobs.Put(ctx, key, body, d.condition())
		if err == nil {
			forget, present := d.due(1, time.Now())
			c.forgetRows(ctx, key, present, forget)
			return nil
		}
		if !storage.LostRace(err) {
			return err
		}
		if err := races.wait(ctx); err != nil {
			return fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
		}
	}
}

// Insert writes the first value of a key and sends messages, in one unit of work. The error matches storage.ErrExists,
// and nothing is sent, if the key has a document.
func (c *Collection[V]) Insert(ctx context.Context, key string, v V, messages ...channel.Message) error {
	if c.fault != nil {
		return c.Check()
	}
	d := &document[V]{}
	var body []byte
	var err error
	if d.value, d.form, err = c.settle(v); err == nil {
		body, err = d.encode()
	}
	if err != nil {
		return fmt.Errorf("values: %s %s: %w", c.name, storage.Quote(key), err)
	}
	write := storage.Write{Container: c.name, Key: key, Body: body, If: storage.Condition{IfAbsent: true}}
	_, err = c.channels.SendWith(ctx, write, messages...)
	return err
}

// Delete removes a document with its record, but not its rows. Messages that it has applied may be applied again if
// they come back. It is for views that are rebuilt.
func (c *Collection[V]) Delete(ctx context.Context, key string) error {
	if c.fault != nil {
		return c.Check()
	}
	c.cache.Take(key)
	return c.blobs.Delete(ctx, key, storage.Condition{})
}

func (d *document[V]) condition() storage.Condition {
	return storage.Condition{IfMatch: d.etag, IfAbsent: d.etag == ""}
}

// take returns the document to change: from memory, as it is stored, or new by guess. remembered says that it was not
// read from the store. The caller owns a remembered document, because changing its value may change what the value
// refers to.
func (c *Collection[V]) take(ctx context.Context, key string, cached bool) (d *document[V], remembered bool, err error) {
	if cached && c.fault == nil {
		if d, ok := c.cache.Take(key); ok {
			return d, true, nil
		}
		if c.absent.Load() >= guessAfter {
			return &document[V]{value: c.cfg.Initial(key)}, true, nil
		}
	}
	d, err = c.read(ctx, key, "")
	switch {
	case err != nil:
	case d.etag == "":
		c.absent.Add(1)
	default:
		c.absent.Store(0)
	}
	return d, false, err
}

func (c *Collection[V]) read(ctx context.Context, key string, ifNoneMatch storage.ETag) (*document[V], error) {
	if c.fault != nil {
		return nil, c.Check()
	}
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
