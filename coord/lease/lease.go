package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// ErrLost is the cause of the end of a lease's context when nothing proves any more that no other process holds the
// lease.
var ErrLost = errors.New("lease lost")

// A Lease is held until it is released or lost, or the context of its acquisition ends. Its methods may be called
// concurrently.
type Lease struct {
	leaseBlob
	log   *slog.Logger
	id    string
	fence int64

	ctx  context.Context
	end  context.CancelCauseFunc
	lost *time.Timer   // ends ctx when ownership can't be proved any more
	done chan struct{} // closed when the renewal has ended

	// These fields belong to the renewal, and after its end to Release.
	doc  document
	etag storage.ETag

	mu       sync.Mutex
	released bool // under mu
}

// hold begins to hold a lease whose write started at start.
func hold(ctx context.Context, b leaseBlob, log *slog.Logger, doc document, etag storage.ETag, start time.Time) *Lease {
	l := &Lease{leaseBlob: b, log: log, id: doc.ID, fence: doc.Fence, done: make(chan struct{}), doc: doc, etag: etag}
	l.ctx, l.end = context.WithCancelCause(ctx)
	l.lost = time.AfterFunc(l.proved(start), func() { l.lose("not renewed in time") })
	go l.renew(start)
	return l
}

// Context ends with the lease: with the cause [ErrLost], with the cause of the context of its acquisition, or when
// it is released.
func (l *Lease) Context() context.Context { return l.ctx }

// Fence numbers the acquisitions of a name: each has a larger number than those before, though not always by 1. It
// is the fencing token.
func (l *Lease) Fence() int64 { return l.fence }

// Release ends the lease's context and lets others have the lease at once. It ignores the end of ctx, because ctx
// has often ended with the work. It takes at most a third of the TTL. After an error the lease may look held until
// another process takes it over; another call of Release tries again. For a lease that is released or lost, Release
// does nothing.
func (l *Lease) Release(ctx context.Context) error {
	l.end(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), l.ttl/3, fmt.Errorf("%w: no success within %v", storage.ErrUnavailable, l.ttl/3))
	defer cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
		return l.fail(context.Cause(ctx))
	}
	if l.released || errors.Is(context.Cause(l.ctx), ErrLost) {
		return nil
	}
	l.doc.ID = ""
	for {
		_, err := l.write(ctx)
		if err == nil || errors.Is(err, ErrLost) {
			l.released = true
			return nil
		}
		if permanent(err) || sleep(ctx, l.ttl/12) != nil {
			return l.fail(err)
		}
	}
}

func (l *Lease) fail(err error) error {
	return fmt.Errorf("lease: release %s: %w", storage.Quote(l.key), err)
}

// proved is how long a write that started at start certainly stays unreplaced by others.
func (l *Lease) proved(start time.Time) time.Duration { return time.Until(start.Add(l.ttl * 5 / 6)) }

// renew writes every third of the TTL until the context ends, and more often while writes fail.
func (l *Lease) renew(start time.Time) {
	defer close(l.done)
	defer l.lost.Stop()
	for next := time.Until(start.Add(l.ttl / 3)); sleep(l.ctx, next) == nil; {
		start, err := l.write(l.ctx)
		switch {
		case l.ctx.Err() != nil:
			return
		case err == nil:
			l.lost.Reset(l.proved(start))
			next = time.Until(start.Add(l.ttl / 3))
		case errors.Is(err, ErrLost):
			l.lose("another process has written the lease")
			return
		default:
			l.log.LogAttrs(l.ctx, slog.LevelWarn, "can't renew a lease; trying again", slog.Any("error", err))
			next = l.ttl / 12
		}
	}
}

func (l *Lease) lose(why string) {
	if l.ctx.Err() == nil {
		l.end(ErrLost)
		l.log.LogAttrs(l.ctx, slog.LevelError, "a lease is lost", slog.Int64("fence", l.fence), slog.String("why", why))
	}
}

// write puts the document, and returns when that call started. If another write came first, and it was an own write
// whose answer was lost, it writes again; otherwise it returns [ErrLost]. After any other error the outcome is
// unknown.
func (l *Lease) write(ctx context.Context) (start time.Time, err error) {
	for {
		l.doc.Beat++
		start = time.Now()
		etag, err := l.put(ctx, l.doc, storage.Condition{IfMatch: l.etag})
		if err == nil {
			l.etag = etag
			return start, nil
		}
		if !storage.LostRace(err) {
			return start, err
		}
		there, etag, err := l.get(ctx, "")
		switch {
		case errors.Is(err, storage.ErrNotFound), err == nil && there.ID != l.id:
			return start, ErrLost
		case err != nil:
			return start, err
		}
		l.etag = etag
	}
}
