package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/members"
)

// begin looks whether all queues are there, and joins those who share some.
func (w *Worker) begin(ctx context.Context) (shared map[string]*members.Member, err error) {
	shared = map[string]*members.Member{}
	for _, q := range w.cfg.Queues {
		if _, err = w.store.Queue(q).Stats(ctx); err != nil {
			break
		}
		if w.cfg.Consumers[q] == 0 {
			continue
		}
		// Three beats of silence are a visibility: as long as a dead worker's messages wait.
		beat := min(max(w.cfg.Visibility/3, time.Second), time.Minute).Truncate(time.Millisecond)
		var m *members.Member
		m, err = members.Join(ctx, w.store, q, members.Config{Name: w.cfg.Name, Active: w.cfg.Consumers[q], Beat: beat, Logger: w.cfg.Logger})
		if err != nil {
			break
		}
		shared[q] = m
	}
	if err != nil {
		for _, m := range shared {
			_ = m.Leave(ctx) // else the others miss it soon
		}
	}
	return shared, err
}

// share runs a consumer of a queue whenever its member is active. One that was stopped may go on with what it is handling
// while the next one runs.
func (w *Worker) share(ctx, running context.Context, queue string, s *suspects, m *members.Member) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	note := func(err error) { mu.Lock(); defer mu.Unlock(); errs = append(errs, err) }
	tell := func(what string) {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, what, slog.String("queue", queue), slog.Int("workers", m.Live()))
	}
	if active, _ := m.Active(); !active {
		tell("worker stands by for a shared queue")
	}
	for until(ctx, m, true) {
		tell("worker consumes a shared queue")
		consuming, stop := context.WithCancel(ctx)
		c := newConsumer(w, queue, s)
		all.Go(func() { note(c.run(consuming, ctx, running)) })
		if until(ctx, m, false) {
			tell("worker leaves a shared queue to others")
		}
		stop()
	}
	// At once, so that others take over while this one drains.
	if err := m.Leave(ctx); err != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't tell other workers of the stop; they take over when they miss this one", slog.Any("error", err))
	}
	all.Wait()
	return errors.Join(errs...)
}

// until waits for a member to be active, or not to be. It returns false when ctx ends first.
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
