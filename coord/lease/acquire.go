package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

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
// after three tries. A process must have watched a lease for 7/6 of its holder's TTL to see that the holder has died.
// It remembers what earlier calls of Try and Acquire have seen on this store, so a call of Try that comes that much
// later takes the lease over. A process that calls Try once and ends, such as a job of cron, sees each lease for the
// first time: [Free] gives it the lease of a holder that died.
func Try(ctx context.Context, store *storage.Store, name string, cfg Config) (*Lease, error) {
	return acquire(ctx, store, name, cfg, false)
}

func acquire(ctx context.Context, store *storage.Store, name string, cfg Config, wait bool) (*Lease, error) {
	cfg, err := cfg.withDefaults(store, name)
	if err != nil {
		return nil, err
	}
	c := &candidate{leaseBlob: blobOf(store, name, cfg.TTL), cfg: cfg, id: rand.Text(), since: time.Now(), memory: agree.MemoryOf[document](store), waiter: waiter{told: make(chan struct{}, 1)}}
	c.holder = c.since
	c.seen = c.memory.Recall(name)
	defer c.leave()
	var last error // of the looks
	for tries := 1; ; tries++ {
		l, err := c.look(ctx)
		held := errors.Is(err, ErrHeld)
		c.had, c.woken = err == nil, c.woken && err != nil && !held
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			err = storecall.Ended(ctx, last)
		case storage.LostRace(err):
			continue // another process wrote first: read the lease again
		case storecall.Permanent(err), !wait && (held || tries == 3):
		case !wait:
			continue
		default:
			failed := last != nil && !errors.Is(last, ErrHeld)
			last = err
			if held && c.hear(ctx) {
				continue // a release since the look wasn't heard: look again
			}
			if !held && !failed {
				cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't acquire a lease; trying again", slog.Any("error", err))
			}
			if c.wait(ctx) == nil {
				continue
			}
			err = storecall.Ended(ctx, last)
		}
		return nil, fmt.Errorf("lease: acquire %s: %w", storage.Quote(name), err)
	}
}

// A candidate tries to get the lease, and remembers what it read last.
type candidate struct {
	leaseBlob
	waiter
	seen   agree.Sighting[document]
	memory agree.Memory[document]
	cfg    Config
	id     string
	since  time.Time // when it began
	holder time.Time // since when it knows of the present holder
}

// look reads the blob. It writes the blob if the lease is free, or has stayed the same for too long.
func (c *candidate) look(ctx context.Context) (*Lease, error) {
	doc, etag, err := c.get(ctx, c.seen.ETag)
	switch {
	case err == nil:
		if doc.Fence != c.seen.Doc.Fence {
			c.holder = time.Now()
		}
		c.saw(agree.Sighting[document]{Doc: doc, ETag: etag, Since: time.Now()})
	case errors.Is(err, storage.ErrNotFound):
		c.saw(agree.Sighting[document]{})
	case !errors.Is(err, storage.ErrNotModified):
		return nil, err
	}
	if c.waitBeforeTakeover() > 0 {
		if c.seen.Doc.ID == "" {
			return nil, fmt.Errorf("%w for %s by a hand-over", ErrHeld, storage.Quote(c.seen.Doc.Next))
		}
		return nil, fmt.Errorf("%w by %s", ErrHeld, storage.Quote(c.seen.Doc.Holder))
	}
	start := time.Now()
	doc = document{Holder: c.cfg.Holder, ID: c.id, Fence: c.nextFence(), TTL: c.ttl.Milliseconds(), Since: start.UTC(), Broken: c.seen.Doc.Broken}
	etag, err = c.put(ctx, doc, storage.Condition{IfMatch: c.seen.ETag, IfAbsent: c.seen.ETag == ""})
	if err != nil {
		return nil, err
	}
	c.cfg.meters.acquired(time.Since(c.since))
	return hold(ctx, c.leaseBlob, c.cfg, doc, etag, start), nil
}

// nextFence is the number of this acquisition. It has the number already if a write was done whose answer was lost.
func (c *candidate) nextFence() int64 {
	if c.seen.Doc.ID == c.id && !c.seen.Doc.broken() {
		return c.seen.Doc.Fence
	}
	return agree.NextFence(c.store, c.seen.Doc.Fence)
}

// waitBeforeTakeover is how long the lease must be left to its holder, or to the one it was handed over to. The blob
// has this candidate's own ID after a write whose answer was lost.
func (c *candidate) waitBeforeTakeover() time.Duration {
	free := c.seen.Doc.ID == "" && (c.seen.Doc.Next == "" || c.seen.Doc.Next == c.cfg.Holder)
	if free || c.seen.Doc.ID == c.id {
		return 0
	}
	return c.seen.TakenFor(time.Duration(c.seen.Doc.TTL) * time.Millisecond)
}

// saw notes what was read last.
func (c *candidate) saw(s agree.Sighting[document]) {
	c.seen = s
	c.memory.Note(c.key, s)
}

// pause is the time until the next look. Where no release is heard, the pause is short at first. It grows with the time
// that this holder has had the lease: so a short scope is followed soon, and a long one costs few looks. It also grows
// somewhat for one that has waited for long, so that a crowd costs less.
func (c *candidate) pause() time.Duration {
	d := storecall.Spread(c.ttl / 3)
	if c.hearing == nil {
		soon := max(time.Since(c.holder)/4, min(time.Since(c.since)/16, c.ttl/75), c.ttl/300)
		d = min(d, soon/2+mathrand.N(soon))
	}
	if wait := c.waitBeforeTakeover(); wait > 0 {
		d = min(d, wait)
	}
	return d
}

// wait waits until the next look: for a pause, or until a release is told to this candidate.
func (c *candidate) wait(ctx context.Context) error {
	if c.polls++; c.polls == 2 {
		c.show(ctx)
	}
	t := time.NewTimer(c.pause())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
	case <-c.told:
		c.woken = true
	}
	return nil
}
