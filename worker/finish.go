package worker

import (
	"context"
	"log/slog"
	"time"
)

// finisher ends deliveries that have nothing left to be recorded in the store: it counts and logs how they ended, and
// releases their messages.
type finisher struct {
	setup
	report   reporter
	released func(m *message) // it is called when a delivery is over for this worker
}

// lose drops a message that another worker has, or may have.
func (f *finisher) lose(m *message) {
	f.stats.lost.Inc()
	f.released(m)
}

// done counts a message that has been handled and deleted.
func (f *finisher) done(m *message) {
	f.report.logSuccess(m)
	f.stats.done.Inc()
	f.stats.kindOf(m).done.Add(1)
	if e := &m.envelope; !e.Time.IsZero() {
		f.stats.lag.Observe(max(0, time.Since(later(e.Time, e.Due))).Seconds())
	}
}

// dropBody deletes the claim-checked body of a message that has been deleted.
func (f *finisher) dropBody(ctx context.Context, m *message) {
	if m.envelope.DataRef == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	if err := f.registry.Channels.Outbox().DeleteBody(ctx, m.envelope.DataRef); err != nil {
		f.log.LogAttrs(ctx, slog.LevelWarn, "can't delete a claim-checked body; it stays in the store", slog.Any("error", err))
	}
}
