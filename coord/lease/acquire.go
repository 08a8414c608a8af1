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

// ErrHeld is in the error of [Try] when another process holds the lease, or may hold it.
var ErrHeld = errors.New("held")

// Acquire waits until it gets the lease of that name, or ctx ends; the error then has the cause of ctx. A name is a
// key of a blob (see storage.CheckKey). While the store fails, Acquire goes on trying. An error of another kind is
// about the name, cfg, or a blob that is no lease.
//
// The end of ctx also ends the lease's context. To wait for a limited time only, cancel ctx by a timer, and stop the
// timer when Acquire returns.
func Acquire(ctx context.Context, store *storage.Store, name string, cfg Config) (*Lease, error) {
	return acquire(ctx, store, name, cfg, true)
}

// Try is [Acquire] without waiting. It returns [ErrHeld] when another process may hold the lease, and other errors
// after three tries. A process must watch the lease for a while to see that its holder has died, so Try never takes
// over from a dead holder. If all processes use Try, a lease that was not released stays held; then let one use
// Acquire.
func Try(ctx context.Context, store *storage.Store, name string, cfg Config) (*Lease, error) {
	return acquire(ctx, store, name, cfg, false)
}

func acquire(ctx context.Context, store *storage.Store, name string, cfg Config, wait bool) (*Lease, error) {
	cfg, err := cfg.withDefaults(name)
	if err != nil {
		return nil, err
	}
	c := &candidate{leaseBlob: leaseBlob{blobs: store.Blobs(container), key: name, ttl: cfg.TTL}, cfg: cfg, id: rand.Text()}
	for tries := 1; ; tries++ {
		l, err := c.look(ctx)
		held := errors.Is(err, ErrHeld)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case storage.LostRace(err):
			continue // another process wrote first: read the lease again
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

// permanent reports that another try can't succeed.
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

// A candidate tries to get the lease, and remembers what it read last.
type candidate struct {
	leaseBlob
	cfg  Config
	id   string
	doc  document
	etag storage.ETag // empty: there is no blob
	seen time.Time    // when this state was first seen
}

// look reads the blob. It writes the blob if the lease is free, or has stayed the same for too long.
func (c *candidate) look(ctx context.Context) (*Lease, error) {
	doc, etag, err := c.get(ctx, c.etag)
	switch {
	case err == nil:
		c.doc, c.etag, c.seen = doc, etag, time.Now() // after the read, so not before the blob was written
	case errors.Is(err, storage.ErrNotFound):
		c.doc, c.etag = document{}, ""
	case !errors.Is(err, storage.ErrNotModified):
		return nil, err
	}
	if c.waitBeforeTakeover() > 0 {
		return nil, fmt.Errorf("%w by %s", ErrHeld, storage.Quote(c.doc.Holder))
	}
	doc = document{Holder: c.cfg.Holder, ID: c.id, Fence: c.doc.Fence + 1, TTL: c.ttl.Milliseconds()}
	start := time.Now()
	etag, err = c.put(ctx, doc, storage.Condition{IfMatch: c.etag, IfAbsent: c.etag == ""})
	if err != nil {
		return nil, err
	}
	return hold(ctx, c.leaseBlob, c.cfg.Logger, doc, etag, start), nil
}

// waitBeforeTakeover is how long the lease must be left to its holder. The blob has this candidate's own ID after a
// write whose answer was lost.
func (c *candidate) waitBeforeTakeover() time.Duration {
	if c.doc.ID == "" || c.doc.ID == c.id {
		return 0
	}
	return time.Until(c.seen.Add(time.Duration(c.doc.TTL) * time.Millisecond * 7 / 6))
}

// pause is the time until the next look.
func (c *candidate) pause() time.Duration {
	d := c.ttl/6 + mathrand.N(c.ttl/6)
	if wait := c.waitBeforeTakeover(); wait > 0 {
		d = min(d, wait)
	}
	return d
}

// A document is the blob's content, as JSON.
type document struct {
	Holder string `json:"holder"`
	ID     string `json:"id"`
	Fence  int64  `json:"fence"`
	TTL    int64  `json:"ttl"` // milliseconds
	Beat   int64  `json:"beat"`
}

// A leaseBlob is the blob of a lease. Its calls end after a quarter of the TTL, so that there is time for another.
type leaseBlob struct {
	blobs *storage.Blobs
	key   string
	ttl   time.Duration
}

func (b leaseBlob) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.ttl/4, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, b.ttl/4))
}

func (b leaseBlob) get(ctx context.Context, ifNoneMatch storage.ETag) (document, storage.ETag, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	blob, err := b.blobs.Get(ctx, b.key, ifNoneMatch)
	if err != nil {
		return document{}, "", err
	}
	var d document
	if json.Unmarshal(blob.Body, &d) != nil || d.Fence < 1 || d.ID != "" && (d.TTL < 1 || d.TTL > maxTTL.Milliseconds()) {
		return document{}, "", fmt.Errorf("%w: the blob of that name in container %s is not a lease", storage.ErrInvalid, container)
	}
	return d, blob.ETag, nil
}

func (b leaseBlob) put(ctx context.Context, d document, cond storage.Condition) (storage.ETag, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	body, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return b.blobs.Put(ctx, b.key, body, cond)
}
