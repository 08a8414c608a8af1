package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// prefix makes the name of a lease from that of a leader.
const prefix = "leader/"

var (
	// ErrHung is in the error of [Run] when the function didn't return within Config.DrainTimeout after the end of its
	// context. It runs on. Its term is not handed over: it ends by itself, 7/6 to 3/2 of the TTL after its last
	// renewal.
	ErrHung = errors.New("the leader's function did not return after the end of its context")

	// ErrResigned is the cause of the end of a context whose function has returned.
	ErrResigned = errors.New("resigned")
)

// A Term is one term of a leader.
type Term struct {
	// Number is the fencing token: it grows by 1 with each change of the leader.
	Number int64

	lease *lease.Lease
}

// Blobs returns access to documents under this term. A write is refused when the leader of a later term has written
// that document, however late the write comes: the error is [lease.ErrFenced]. Writes of other documents aren't. So a
// leader that decides by what it reads claims these documents before (lease.Documents.Claim).
func (t Term) Blobs(blobs *storage.Blobs) *lease.Documents { return t.lease.Blobs(blobs) }

// Run stands as a candidate for the leader of that name, calls f whenever it leads, and stands again when a term is
// lost. Only one process at a time leads; see the package comment. It returns
//
//   - nil when f has done its work: it returned nil before its context ended. Run resigns, and stands no more.
//   - nil when ctx has ended. Run has waited for f, and has handed over to another candidate.
//   - f's error when ctx has ended and f returned another error than that of its context.
//   - [ErrHung] when f doesn't return after the end of its context.
//   - at once an error about the name or cfg, or about a blob that is no lease. While the store fails, Run goes on
//     standing.
//
// The context of f ends with ctx, or when nothing proves any more that no other process leads; then its cause is
// [lease.ErrLost]. f must return soon after that. Meanwhile the term is renewed if it can be, so that no other leader
// begins before f has returned. After a lost term the error of f is logged, and Run stands again a third of the TTL
// later: others come first, also when an operator has broken the lease (lease.Break).
//
// When f fails, Run logs the error, resigns, and stands again after the TTL. A panic of f is such an error, and so
// is runtime.Goexit: the process may do other work, and another leader may fare better.
//
// Run may be called again afterwards, and several times at once: each call is a candidate.
func Run(ctx context.Context, store *storage.Store, name string, cfg Config, f func(ctx context.Context, term Term) error) error {
	cfg, err := cfg.withDefaults(store, name)
	if err != nil {
		return err
	}
	if f == nil {
		return fmt.Errorf("leader: %w: there is no function to call", storage.ErrInvalid)
	}
	m, err := newMeter(cfg.Metrics, name)
	if err != nil {
		return fmt.Errorf("leader: metrics: %w", err)
	}
	c := &candidate{store: store, name: name, cfg: cfg, meter: m, f: f}
	defer c.telling.Wait()
	for {
		end, err := c.stand(ctx)
		switch {
		case end == done || ctx.Err() != nil && err == nil:
			return nil
		case end == final || ctx.Err() != nil:
			return fmt.Errorf("leader: run %s: %w", storage.Quote(name), err)
		case end == failed:
			_ = storecall.Sleep(ctx, cfg.TTL) // the next candidacy sees that ctx has ended
		default:
			_ = storecall.Sleep(ctx, cfg.TTL/3) // others come first, as an operator wants who has broken the lease
		}
	}
}

// An end says how a candidacy ended.
type end int

const (
	lost   end = iota // the term, or ctx ended before there was one
	done              // f has done its work
	failed            // f
	final             // no other candidacy can be better
)

// A candidate is one call of Run.
type candidate struct {
	store   *storage.Store
	name    string
	cfg     Config
	meter   meter
	f       func(ctx context.Context, term Term) error
	telling sync.WaitGroup // of watchers
}

// stand waits for a term, and leads while it lasts.
func (c *candidate) stand(ctx context.Context) (end, error) {
	// The lease outlives ctx, because f needs it until it has returned.
	hold, letGo := context.WithCancelCause(context.WithoutCancel(ctx))
	defer letGo(ErrResigned)
	wait := context.AfterFunc(ctx, func() { letGo(context.Cause(ctx)) })
	defer wait()
	l, err := lease.Acquire(hold, c.store, prefix+c.name, lease.Config{TTL: c.cfg.TTL, Holder: c.cfg.Holder, Logger: c.cfg.Logger, Metrics: c.cfg.Metrics})
	switch {
	case err != nil && ctx.Err() != nil:
		return lost, nil
	case err != nil:
		return final, err
	case !wait(): // ctx ended meanwhile
		c.handOver(ctx, l)
		return lost, nil
	}
	return c.lead(ctx, l)
}

// lead calls f, and hands over when it has returned.
func (c *candidate) lead(ctx context.Context, l *lease.Lease) (end, error) {
	term := right.Within(l.Context(), ctx)
	defer term.End(ErrResigned)
	c.meter.begin(term)
	c.tell(ctx)
	log := c.cfg.Logger.With(slog.Int64("term", l.Fence()))
	log.LogAttrs(ctx, slog.LevelInfo, "a leader's term begins")
	returned := contain.Start(func() error { return c.f(term, Term{Number: l.Fence(), lease: l}) })
	err, ok := c.await(term, returned)
	if !ok {
		log.LogAttrs(ctx, slog.LevelError, "a leader's function hangs after the end of its context and is given up", slog.Duration("after", c.cfg.DrainTimeout))
		return final, fmt.Errorf("%w within %v", ErrHung, c.cfg.DrainTimeout)
	}
	why := context.Cause(term)
	term.End(ErrResigned)
	c.handOver(ctx, l)
	switch {
	case why != nil && (errors.Is(err, why) || errors.Is(err, context.Canceled)):
		err = nil // f ended because its context did
		fallthrough
	case why != nil:
		log.LogAttrs(ctx, slog.LevelInfo, "a leader's term has ended", slog.Any("why", why), slog.Any("error", err))
		return lost, err
	case err == nil:
		log.LogAttrs(ctx, slog.LevelInfo, "a leader has done its work and resigned")
		return done, nil
	}
	attrs := []slog.Attr{slog.Any("error", err), slog.Duration("pause", c.cfg.TTL)}
	if p, ok := errors.AsType[*contain.Panic](err); ok {
		attrs = append(attrs, slog.String("stack", contain.Stack(p.Frames)))
	}
	log.LogAttrs(ctx, slog.LevelError, "a leader has failed and resigned", attrs...)
	return failed, err
}

// await waits until f has returned, or has had its time after the end of its context.
func (c *candidate) await(term context.Context, returned <-chan error) (err error, ok bool) {
	select {
	case err := <-returned:
		return err, true
	case <-term.Done():
	}
	drained := time.NewTimer(c.cfg.DrainTimeout)
	defer drained.Stop()
	select {
	case err := <-returned:
		return err, true
	case <-drained.C:
		return nil, false
	}
}

// handOver lets others lead at once.
func (c *candidate) handOver(ctx context.Context, l *lease.Lease) {
	if err := l.Release(ctx); err != nil {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't hand over; another candidate follows when the term has run out", slog.Int64("term", l.Fence()), slog.Any("error", err))
	}
	c.tell(ctx)
}
