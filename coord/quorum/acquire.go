package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ErrHeld is in the error of [Try] when another process holds the lock, or may hold it.
var ErrHeld = errors.New("held")

// errSplit ends a round in which several candidates got grants, and this one too few of them.
var errSplit = errors.New("other candidates were faster")

// Acquire waits until it gets the lock of that name, or ctx ends; the error then has the cause of ctx. A name is a key
// of a blob (see storage.CheckKey). All processes give the same stores, in any order. A store that couldn't be opened
// is nil, and counts as one that fails; a majority must be open. While too many stores fail, Acquire goes on trying. An
// error of another kind is about the arguments, or about what is in the stores.
//
// The end of ctx also ends the lock's context. To wait for a limited time only, cancel ctx by a timer, and stop the
// timer when Acquire returns.
func Acquire(ctx context.Context, stores []*storage.Store, name string, cfg Config) (*Lock, error) {
	return acquire(ctx, stores, name, cfg, true)
}

// Try is [Acquire] without waiting. It returns [ErrHeld] when another process may hold the lock, and other errors
// after three tries. It remembers what earlier calls of Try and Acquire have seen in these stores. So a call that
// comes 7/6 of the TTL later takes over from a dead holder. A process that calls Try once and ends, such as a job of
// cron, sees each lock for the first time: [Free] gives it the lock of a holder that died.
func Try(ctx context.Context, stores []*storage.Store, name string, cfg Config) (*Lock, error) {
	return acquire(ctx, stores, name, cfg, false)
}

// Free waits until a dead holder's lock may be had, and frees it: for those that only [Try] once, and would have to
// watch the lock themselves. It watches a majority of the stores for 7/6 of the TTL, has the lock for a moment, and
// releases it. A lock that nobody holds is free at once. After three times the TTL it returns [ErrHeld]: the holder
// lives, or too many stores fail. A store that has no document of the lock counts as failed while another store fails.
// After an error the lock may look held; another call tries again.
func Free(ctx context.Context, stores []*storage.Store, name string, cfg Config) error {
	s, err := cfg.complete(stores, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 3*s.TTL, fmt.Errorf("%w, or may be: not free after %v", ErrHeld, 3*s.TTL))
	defer cancel()
	l, err := Acquire(ctx, stores, name, cfg)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// Do acquires the lock and calls f with its context and its fence. It releases the lock however f ends, and returns
// the errors of f and of the release. If the lock was lost before f returned, the error is also [ErrLost]: f may have
// run beside the next holder for a while.
func Do(ctx context.Context, stores []*storage.Store, name string, cfg Config, f func(ctx context.Context, fence int64) error) (err error) {
	if f == nil {
		return fmt.Errorf("quorum: do %s: %w: no function", storage.Quote(name), storage.ErrInvalid)
	}
	l, err := Acquire(ctx, stores, name, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Release(ctx)) }()
	err = contain.Sound(f(l.Context(), l.Fence()))
	if why := context.Cause(l.Context()); errors.Is(why, ErrLost) && !errors.Is(err, ErrLost) {
		err = errors.Join(err, fmt.Errorf("quorum: %s: %w", storage.Quote(name), why))
	}
	return err
}

func acquire(ctx context.Context, stores []*storage.Store, name string, cfg Config, wait bool) (*Lock, error) {
	s, err := cfg.complete(stores, name)
	if err != nil {
		return nil, err
	}
	c := newCandidate(s, stores, name)
	var last error // of the rounds
	for tries := 1; ; tries++ {
		l, err := c.try(ctx)
		held := errors.Is(err, ErrHeld)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			err = storecall.Ended(ctx, last)
		case storecall.Permanent(err), !wait && (held || tries == 3):
		default:
			if failed := isFailure(last); wait && !failed && isFailure(err) {
				s.Logger.LogAttrs(ctx, slog.LevelWarn, "can't acquire a lock; trying again", slog.Any("error", err))
			}
			last = err
			if storecall.Sleep(ctx, c.pause(err, wait)) == nil {
				continue
			}
			err = storecall.Ended(ctx, last)
		}
		return nil, fmt.Errorf("quorum: acquire %s: %w", storage.Quote(name), err)
	}
}

// isFailure reports that stores have failed a round. Other candidates may have.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, ErrHeld) && !errors.Is(err, errSplit)
}

// majority is more than half of n stores: any two majorities share a store.
func majority(n int) int { return n/2 + 1 }

// A candidate tries to get the lock, round by round. It goes on watching the documents from round to round.
type candidate struct {
	setting
	key    string
	grants []*grant
	ready  []time.Time // by grant: when it may be taken, as far as is known; zero if that is unknown
}

func newCandidate(s setting, stores []*storage.Store, name string) *candidate {
	c := &candidate{setting: s, key: name, ready: make([]time.Time, len(stores))}
	id := rand.Text()
	for i, store := range stores {
		g := &grant{setting: s, key: name, index: i, id: fmt.Sprintf("%s-%d", id, i), turn: make(chan struct{}, 1)}
		if store != nil {
			g.blobs, g.memory = store.Blobs(container), agree.MemoryOf[document](store)
			g.seen = g.memory.Recall(name)
		}
		g.unlock()
		c.grants = append(c.grants, g)
	}
	return c
}

// try makes one round, and gives everything back if it fails.
func (c *candidate) try(ctx context.Context) (*Lock, error) {
	r := newRound(c)
	err := r.run(ctx)
	outcome := "failed"
	switch {
	case err == nil:
		c.rounds.WithLabelValues("acquired").Inc()
		return hold(ctx, c, r.fence, r.proved), nil
	case errors.Is(err, ErrHeld):
		outcome = "held"
	case errors.Is(err, errSplit):
		outcome = "split"
	}
	c.rounds.WithLabelValues(outcome).Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.TTL/4)
	defer cancel()
	ready := make([]time.Time, len(c.grants))
	settle := func(g *grant) error {
		err := g.settle(ctx)
		if g.seen.ETag != "" {
			ready[g.index] = time.Now().Add(g.wait())
		}
		return err
	}
	for i, err := range each(ctx, c.grants, settle) {
		if !errors.Is(err, errBusy) {
			c.ready[i] = ready[i]
		}
		if err != nil && !storage.LostRace(err) {
			c.Logger.LogAttrs(ctx, slog.LevelDebug, "can't give a grant back", slog.Int("store", i), slog.Any("error", err))
		}
	}
	return nil, err
}

// settle ends a grant's part of a round that failed. A document that is still missing in the second round belongs to
// a store that forgot: in the first one another candidate may have been about to write it.
func (g *grant) settle(ctx context.Context) error {
	switch {
	case g.asked:
		return g.give(ctx)
	case g.seen.Doc.absent > 1:
		return g.mark(ctx)
	}
	return nil
}

// pause is the time until the next round: random and short after a split, because all who took part wait. Else it is
// as long as it takes, so that the next round isn't later than needed to take over a majority.
func (c *candidate) pause(err error, wait bool) time.Duration {
	if errors.Is(err, errSplit) || !wait {
		return c.TTL/200 + mathrand.N(c.TTL/20)
	}
	d := storecall.Spread(c.TTL / 3)
	var ready []time.Time
	for _, t := range c.ready {
		if !t.IsZero() {
			ready = append(ready, t)
		}
	}
	if most := majority(len(c.grants)); len(ready) >= most {
		slices.SortFunc(ready, time.Time.Compare)
		if until := time.Until(ready[most-1]); until > 0 {
			d = min(d, until)
		}
	}
	return d
}
