package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// container holds the blobs of all leases.
const container = "leases"

// ErrHeld is in the error of [Try] when somebody holds the lease, or may.
var ErrHeld = errors.New("held")

// Acquire waits until the lease of that name is ours, or ctx ends; the error then has the cause of that. A name is a
// key of a blob (see storage.CheckKey). While the store fails it goes on trying; an error of another kind is about the
// name, cfg, or a blob that is no lease.
//
// The end of ctx ends the lease's context too. To wait for a limited time only, cancel ctx by a timer, and stop the
// timer when the lease is there.
func Acquire(ctx context.Context, store *storage.Store, name string, cfg Config) (*Lease, error) {
	return acquire(ctx, store, name, cfg, true)
}

// Try is [Acquire] without waiting: [ErrHeld] when somebody else may hold the lease, and other errors after three
// tries. That a holder has died shows only to who watches for a while, so Try never takes over from a dead one: where
// all use Try, a lease that nobody released stays held. Let one use Acquire then.
func Try(ctx context.Context, store *storage.Store, name string, cfg Config) (*Lease, error) {
	return acquire(ctx, store, name, cfg, false)
}

func acquire(ctx context.Context, store *storage.Store, name string, cfg Config, wait bool) (*Lease, error) {
	cfg, err := cfg.withDefaults(name)
	if err != nil {
		return nil, err
	}
	c := &candidate{spot: spot{blobs: store.Blobs(container), key: name, ttl: cfg.TTL}, cfg: cfg, id: rand.Text()}
	for tries := 1; ; tries++ {
		l, err := c.look(ctx)
		held := errors.Is(err, ErrHeld)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case storage.LostRace(err):
			continue // somebody was faster: see who
		case permanent(err), !wait && (held || tries == 3):
		case !wait:
			continue
		default:
			if !held {
				cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't acquire a lease; trying again", slog.Any("error", err))
			}
			if err = sleep(ctx, c.pause()); err == nil {
				continue
			}
		}
		return nil, fmt.Errorf("lease: acquire %s: %w", storage.Quote(name), err)
	}
}

// permanent reports that trying again won't help.
func permanent(err error) bool {
	return errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrUnsupported) || errors.Is(err, storage.ErrTooLarge)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// A candidate wants the lease, and remembers what it saw last.
type candidate struct {
	spot
	cfg  Config
	id   string
	doc  document
	etag storage.ETag // none: there is no blob
	seen time.Time    // when this state was first seen
}

// look reads the blob, and writes it if the lease is free or was left alone for too long.
func (c *candidate) look(ctx context.Context) (*Lease, error) {
	doc, etag, err := c.get(ctx, c.etag)
	switch {
	case err == nil:
		c.doc, c.etag, c.seen = doc, etag, time.Now() // after the call: not before it was written
	case errors.Is(err, storage.ErrNotFound):
		c.doc, c.etag = document{}, ""
	case !errors.Is(err, storage.ErrNotModified):
		return nil, err
	}
	if c.rest() > 0 {
		return nil, fmt.Errorf("%w by %s", ErrHeld, storage.Quote(c.doc.Holder))
	}
	doc = document{Holder: c.cfg.Holder, ID: c.id, Fence: c.doc.Fence + 1, TTL: c.ttl.Milliseconds()}
	start := time.Now()
	etag, err = c.put(ctx, doc, storage.Condition{IfMatch: c.etag, IfAbsent: c.etag == ""})
	if err != nil {
		return nil, err
	}
	return hold(ctx, c.spot, c.cfg.Logger, doc, etag, start), nil
}

// rest is how long the lease must still be left to its holder. An own ID is of a write whose answer was lost.
func (c *candidate) rest() time.Duration {
	if c.doc.ID == "" || c.doc.ID == c.id {
		return 0
	}
	return time.Until(c.seen.Add(time.Duration(c.doc.TTL) * time.Millisecond * 7 / 6))
}

// pause is the time to the next look.
func (c *candidate) pause() time.Duration {
	d := c.ttl/6 + mathrand.N(c.ttl/6)
	if rest := c.rest(); rest > 0 {
		d = min(d, rest)
	}
	return d
}

// A document is what the blob holds, as JSON.
type document struct {
	Holder string `json:"holder"`
	ID     string `json:"id"`
	Fence  int64  `json:"fence"`
	TTL    int64  `json:"ttl"` // milliseconds
	Beat   int64  `json:"beat"`
}

// A spot is where a lease is stored. Its calls end after a quarter of the TTL, so that there is time for another.
type spot struct {
	blobs *storage.Blobs
	key   string
	ttl   time.Duration
}

func (s spot) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.ttl/4, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, s.ttl/4))
}

func (s spot) get(ctx context.Context, ifNoneMatch storage.ETag) (document, storage.ETag, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	blob, err := s.blobs.Get(ctx, s.key, ifNoneMatch)
	if err != nil {
		return document{}, "", err
	}
	var d document
	if json.Unmarshal(blob.Body, &d) != nil || d.Fence < 1 || d.ID != "" && (d.TTL < 1 || d.TTL > maxTTL.Milliseconds()) {
		return document{}, "", fmt.Errorf("%w: the blob of that name in container %s is no lease", storage.ErrInvalid, container)
	}
	return d, blob.ETag, nil
}

func (s spot) put(ctx context.Context, d document, cond storage.Condition) (storage.ETag, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	body, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return s.blobs.Put(ctx, s.key, body, cond)
}
