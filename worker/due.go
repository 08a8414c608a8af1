package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/storage"
)

// postpone hands back a message that isn't due, unless it was cancelled. All its deliveries so far become hops, so that
// none of them counts, not even one that ended with a worker.
func (s *settler) postpone(ctx context.Context, m *message) {
	if s.cancelled(ctx, m) || !m.claim.end() {
		return
	}
	e := m.history()
	e.Hops = m.deliveries - e.Attempts - e.HandBacks
	s.stats.handedBack.Inc()
	s.rewrite(ctx, m, e.Early(time.Now()), nil)
}

// cancelled ends the delivery of a message that was cancelled, or of one that is due and can't be asked about.
func (s *settler) cancelled(ctx context.Context, m *message) bool {
	cancellations := s.registry.Channels.Outbox().Cancellations()
	tombstone, err := cancellations.Of(ctx, s.queue, &m.envelope, m.deliveries)
	switch {
	case err != nil && !m.early: // else it is asked about again when it is due
		s.conclude(ctx, m, handling.Outcome{Err: err})
		return true
	case tombstone == nil:
		return false
	case !m.claim.end():
		return true
	}
	defer s.finisher.released(m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	switch err := s.q.Delete(ctx, []storage.Receipt{m.claim.settle()}); {
	case isStale(err): // another worker has it, and finds the tombstone
		s.stats.lost.Inc()
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelError, "can't delete a cancelled message; it comes back when its visibility ends", append(m.attrs(), slog.Any("error", err))...)
	default:
		s.stats.cancelled.Inc()
		s.log.LogAttrs(ctx, slog.LevelDebug, "message was cancelled", m.attrs()...)
		cancellations.Retire(ctx, s.queue, &m.envelope, tombstone)
		s.finisher.dropBody(ctx, m)
	}
	return true
}
