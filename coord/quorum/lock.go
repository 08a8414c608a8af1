package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ErrLost is the cause of the end of a lock's context when a majority of stores no longer proves that no other process
// holds the lock.
var ErrLost = errors.New("lock lost")

// A Lock is held until it is released or lost, or the context of its acquisition ends. Its methods may be called
// concurrently.
type Lock struct {
	setting
	key    string
	grants []*grant
	fence  int64

	ctx       *right.Right  // ends when the majority isn't proved any more
	releasing chan struct{} // full while nobody releases

	mu     sync.Mutex
	proved []time.Time // by grant: when the last write began that was answered with success; under mu
}

// hold begins to hold a lock whose grants were proved by writes that began at these times.
func hold(ctx context.Context, c *candidate, fence int64, proved []time.Time) *Lock {
	l := &Lock{setting: c.setting, key: c.key, grants: c.grants, fence: fence, proved: proved, releasing: make(chan struct{}, 1)}
	l.releasing <- struct{}{}
	l.ctx = right.New(ctx, provedTill(proved, l.TTL), l.lose)
	var renewing sync.WaitGroup
	for _, g := range l.grants {
		renewing.Go(func() { l.renew(g) })
	}
	go func() {
		renewing.Wait()
		l.ctx.End(nil)
	}()
	return l
}

// Context ends with the lock: with the cause [ErrLost], with the cause of the context of its acquisition, or when it is
// released. Each look at it compares the clock with the end of the proof, as in package coord/lease.
func (l *Lock) Context() context.Context { return l.ctx }

// Fence numbers the holders of a name: each has a larger number than those before, though often not by 1. It is the
// fencing token.
func (l *Lock) Fence() int64 { return l.fence }

// Release ends the lock's context and gives all grants back, so that others can have the lock at once. It ignores the
// end of ctx, because ctx has often ended with the work. It takes at most a third of the TTL. It returns nil when the
// lock was lost, or has no grant in a majority of stores. A store that forgot, and that this lock hadn't taken yet,
// stays out for others until they have watched it for 7/6 of the TTL. After an error the lock may look held until
// another process takes it over; another call of Release tries again.
func (l *Lock) Release(ctx context.Context) error {
	l.ctx.End(nil)
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), l.TTL/3)
	defer cancel()
	select {
	case <-l.releasing:
		defer func() { l.releasing <- struct{}{} }()
	case <-ctx.Done():
		return l.fail(context.Cause(ctx))
	}
	for {
		err := l.give(ctx)
		if err == nil || errors.Is(context.Cause(l.ctx), ErrLost) {
			return nil
		}
		if storecall.Permanent(err) || storecall.Sleep(ctx, l.TTL/24) != nil {
			return l.fail(err)
		}
	}
}

func (l *Lock) fail(err error) error {
	return fmt.Errorf("quorum: release %s: %w", storage.Quote(l.key), err)
}

// give gives back each grant that wasn't yet. It returns the failures if others can't have a majority now.
func (l *Lock) give(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.TTL/8)
	defer cancel()
	var (
		faults []error
		free   int
	)
	for i, err := range each(ctx, l.grants, func(g *grant) error { return g.give(ctx) }) {
		if err == nil {
			free++
			continue
		}
		faults = append(faults, fmt.Errorf("stores[%d]: %w", i, err))
	}
	if err := errors.Join(faults...); free < majority(len(l.grants)) {
		return err
	} else if err != nil {
		l.Logger.LogAttrs(ctx, slog.LevelWarn, "a lock is released, but not in all stores", slog.Any("error", err))
	}
	return nil
}

// renew writes one grant every third of the TTL until the context ends, and more often while writes fail.
func (l *Lock) renew(g *grant) {
	failing := false
	for next := time.Duration(0); storecall.Sleep(l.ctx, next) == nil; {
		start, err := l.write(g)
		switch {
		case l.ctx.Err() != nil:
			return
		case err == nil:
			l.prove(g.index, start)
			next = time.Until(start.Add(l.TTL / 3))
		case errors.Is(err, ErrHeld): // somebody else's document proves nothing for this lock
			l.prove(g.index, time.Time{})
			next = l.TTL / 3
		default:
			next = l.TTL / 12
		}
		if failing != (err != nil) {
			failing = err != nil
			if failing {
				l.Logger.LogAttrs(l.ctx, slog.LevelWarn, "a store of a lock fails", slog.Int("store", g.index), slog.Any("error", err))
			} else {
				l.Logger.LogAttrs(l.ctx, slog.LevelInfo, "a store of a lock works again", slog.Int("store", g.index))
			}
		}
	}
}

// write renews a grant, and returns when the write began. A write of the round that took the lock is new enough.
func (l *Lock) write(g *grant) (time.Time, error) {
	if err := g.lock(l.ctx); err != nil {
		return time.Time{}, err
	}
	defer g.unlock()
	if err := l.ctx.Err(); err != nil {
		return time.Time{}, err // a release may have had the turn before
	}
	if !g.proved.IsZero() && time.Since(g.proved) < l.TTL/3 {
		return g.proved, nil
	}
	err := g.renew(l.ctx, l.fence, l.alive)
	return g.proved, err
}

// prove notes since when a grant is proved, and moves the end of the lock.
func (l *Lock) prove(index int, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proved[index] = since
	l.ctx.Prove(provedTill(l.proved, l.TTL))
}

// alive reports that a majority is proved now.
func (l *Lock) alive() bool { return l.ctx.Err() == nil }

func (l *Lock) lose(r *right.Right) {
	if r.End(ErrLost) {
		l.losses.Inc()
		l.Logger.LogAttrs(r, slog.LevelError, "a lock is lost", slog.Int64("fence", l.fence))
	}
}
