package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ErrLost is the cause of the end of a lease's context when nothing proves any more that no other process holds the
// lease, or when an operator has broken it.
var ErrLost = errors.New("lease lost")

// errBroken is in an error with ErrLost when an operator has broken the lease.
var errBroken = errors.New("broken")

// A Lease is held until it is released, handed over, broken or lost, or the context of its acquisition ends. Its
// methods may be called concurrently.
type Lease struct {
	leaseBlob
	cfg   Config
	id    string
	fence int64

	ctx *agree.Hold // ends when ownership isn't proved any more

	// These fields belong to whoever has entered ctx.
	doc      document
	etag     storage.ETag
	released bool
}

// hold begins to hold a lease whose write started at start.
func hold(ctx context.Context, b leaseBlob, cfg Config, doc document, etag storage.ETag, start time.Time) *Lease {
	l := &Lease{leaseBlob: b, cfg: cfg, id: doc.ID, fence: doc.Fence, doc: doc, etag: etag}
	l.ctx = agree.NewHold(ctx, cfg.TTL, start, l.renew, l.lose)
	return l
}

// Context ends with the lease: with the cause [ErrLost], with the cause of the context of its acquisition, or when
// it is released. Each look at it compares the clock with the end of the proof, so it has ended from that moment on,
// also in a process that stood still. A context that is made of it by context.WithTimeout or WithCancel may learn of
// the end some milliseconds later.
func (l *Lease) Context() context.Context { return l.ctx }

// Fence numbers the holders of a name: each has a larger number than the one before it. It is the fencing token; see
// [Lease.Blobs].
func (l *Lease) Fence() int64 { return l.fence }

// Release ends the lease's context and lets others have the lease at once. It ignores the end of ctx, because ctx
// has often ended with the work. It takes at most a third of the TTL. After an error the lease may look held until
// another process takes it over; another call of Release tries again. For a lease that is released or lost, Release
// does nothing; a broken one becomes free at once.
func (l *Lease) Release(ctx context.Context) error {
	if err := l.give(ctx, ""); err != nil {
		return fmt.Errorf("lease: release %s: %w", storage.Quote(l.key), err)
	}
	return nil
}

// HandOver is [Lease.Release] in favour of one waiting process, whose Config.Holder is to: it gets the lease at once,
// and others may take the lease only after 7/6 of its TTL. It returns [ErrLost] when the lease is lost, broken or
// released already. After any other error the outcome is unknown: call it again, or Release.
func (l *Lease) HandOver(ctx context.Context, to string) error {
	err := storecall.CheckText("the next holder", to, maxText)
	if err == nil && to == "" {
		err = fmt.Errorf("%w: no next holder; use Release", storage.ErrInvalid)
	}
	if err == nil {
		err = l.give(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("lease: hand over %s: %w", storage.Quote(l.key), err)
	}
	return nil
}

// give ends the lease, in favour of one holder or of any.
func (l *Lease) give(ctx context.Context, to string) error {
	l.ctx.End(nil)
	ctx, leave, err := l.ctx.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	why := context.Cause(l.ctx)
	switch gone := l.released || errors.Is(why, ErrLost); {
	case gone && to == "" && (l.released || !l.doc.broken()):
		return nil
	case l.released && l.doc.Next == to:
		return nil
	case l.released:
		return fmt.Errorf("%w: released already", ErrLost)
	case to != "" && l.doc.broken():
		return l.brokenError()
	case gone && to != "":
		return why
	}
	l.doc.ID, l.doc.Next = "", to
	for {
		err := l.write(ctx)
		switch {
		case err == nil:
			l.released = true
			if to != "" {
				l.cfg.meters.handOver()
			}
			l.tell(ctx, to)
			return nil
		case errors.Is(err, errBroken) && to == "":
			continue // write over the break
		case errors.Is(err, ErrLost):
			if l.released = !errors.Is(err, errBroken); to == "" {
				return nil
			}
			return err
		case storecall.Permanent(err) || storecall.Sleep(ctx, l.ttl/12) != nil:
			return err
		}
	}
}

// renew writes the lease again. ctx is the lease's.
func (l *Lease) renew(ctx context.Context) (lost bool, err error) {
	err = l.write(ctx)
	lost = errors.Is(err, ErrLost)
	switch {
	case ctx.Err() != nil, lost:
	case err == nil:
		l.cfg.meters.renewal()
	default:
		l.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't renew a lease; trying again", slog.Any("error", err))
	}
	return lost, err
}

// lose ends the context of a lease that is lost, or that no renewal has proved in time.
func (l *Lease) lose(r *right.Right, why error) {
	if !errors.Is(why, ErrLost) {
		why = fmt.Errorf("%w: not renewed in time", ErrLost)
	}
	if r.End(why) { // else it had ended before
		l.cfg.meters.loss(errors.Is(why, errBroken))
		l.cfg.Logger.LogAttrs(r, slog.LevelError, "a lease is lost", slog.Int64("fence", l.fence), slog.Any("why", why))
	}
}

// write puts the document. If another write came first, and it was an own write whose answer was lost, it writes again
// where that is needed; otherwise it returns [ErrLost]. After any other error the outcome is unknown.
func (l *Lease) write(ctx context.Context) error {
	for {
		l.doc.Beat++
		etag, err := l.put(ctx, l.doc, storage.Condition{IfMatch: l.etag})
		if err == nil {
			l.etag = etag
			return nil
		}
		if !storage.LostRace(err) {
			return err
		}
		there, etag, err := l.get(ctx, "")
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("%w: its blob is gone", ErrLost)
		case err != nil:
			return err
		}
		over, err := l.compare(there, etag)
		if over || err != nil {
			return err
		}
	}
}

func (l *Lease) brokenError() error {
	return fmt.Errorf("%w: %w by %s: %s", ErrLost, errBroken, storage.Quote(l.doc.Broken.By), storage.Quote(l.doc.Broken.Why))
}

// compare takes a document that came before a write. It reports whether that write isn't needed any more: it is a
// release that was done although its answer was lost.
func (l *Lease) compare(there document, etag storage.ETag) (over bool, err error) {
	switch {
	case there.ID == l.id && there.broken() && !l.doc.broken():
		l.doc.Broken, l.etag = there.Broken, etag
		return false, l.brokenError()
	case there.ID == l.id:
	case l.doc.ID == "" && there.ID == "" && there.Fence == l.fence && there.Next == l.doc.Next:
		return true, nil
	case l.doc.ID == "" && there.ID == "" && there.Fence == l.fence && l.doc.Next == "": // a hand-over that is taken back
	case l.doc.Next != "" && there.Holder == l.doc.Next && there.Fence == l.fence+1: // the next holder was quick
		return true, nil
	default:
		return false, fmt.Errorf("%w: another process has written it", ErrLost)
	}
	l.etag = etag
	return false, nil
}
