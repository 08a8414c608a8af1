package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/members"
)

const maxBeat = 10 * time.Second

// share runs a consumer of a queue whenever this worker is active for it. A consumer that was stopped may still finish
// its messages while the next one runs.
func (w *Worker) share(ctx, running context.Context, queue string, s *suspects) error {
	var (
		now  atomic.Pointer[consumer] // the consumer that receives
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
		told bool // the log says already that it is stuck
	)
	m, err := members.Join(w.store, w.group(queue), members.Config{
		Name: w.cfg.Name, Active: w.cfg.ActiveWorkers[queue], Logger: w.cfg.Logger,
		Beat: min(max(w.cfg.Visibility/3, time.Second), maxBeat).Truncate(time.Millisecond),
		Fit: func() bool {
			c := now.Load()
			stuck := c != nil && c.stuck()
			if stuck && !told {
				c.log.LogAttrs(ctx, slog.LevelWarn, "nothing could be received for long; another worker may take the queue over")
			}
			told = stuck
			return !stuck
		},
	})
	if err != nil {
		return err
	}
	tell := func(what string) {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, what, slog.String("queue", queue), slog.String("worker", w.cfg.Name))
	}
	tell("worker stands by for a queue")
	for until(ctx, m, true) {
		tell("worker becomes active for a queue")
		consuming, stop := context.WithCancel(ctx)
		c := newConsumer(w, queue, s)
		now.Store(c)
		all.Go(func() {
			if err := c.run(consuming, ctx, running); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
		if until(ctx, m, false) {
			tell("worker leaves a queue to others, and stands by")
		}
		stop()
		now.Store(nil)
	}
	// Leave before draining, so that others take over at once.
	if err := m.Leave(ctx); err != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't tell other workers of the stop; they take over when they miss this one", slog.Any("error", err))
	}
	all.Wait()
	return errors.Join(errs...)
}

// group names the workers that share a queue. A worker hands back messages of a kind that it doesn't know, so only
// workers that know the same kinds share.
func (w *Worker) group(queue string) string {
	var kinds []string
	for _, h := range w.h.Handlers(queue) {
		kinds = append(kinds, string(h.Kind()))
	}
	slices.Sort(kinds)
	sum := sha256.Sum256([]byte(strings.Join(kinds, "\n")))
	return "worker/" + queue + "/" + hex.EncodeToString(sum[:8])
}

// until waits for a member to become active, or to be active no longer. It returns false when ctx ends first.
func until(ctx context.Context, m *members.Member, active bool) bool {
	for {
		is, changed := m.Active()
		if ctx.Err() != nil || is == active {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
