package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/storage"
)

const (
	outcomeTime = 10 * time.Second // to record how a delivery ended
	storeDelay  = 2 * time.Second  // before a message is tried again after the store failed
	oldAfter    = 24 * time.Hour   // when a message that its handler hands back counts as old
)

// settler ends the deliveries of one queue, each by its outcome: the message is deleted, rewritten (to come again), or
// moved to the poison queue. Nothing of it decides when a handler starts.
type settler struct {
	setup
	finisher *finisher
	deletes  *deletions
	hung     *hung
	stopped  <-chan struct{} // closed when the time to finish is over; nil: never
}

// newSettler returns a settler. It deletes messages until base ends.
func newSettler(base context.Context, with setup, hangs *hung, released func(m *message)) *settler {
	f := &finisher{setup: with, report: reporter{log: with.log}, released: released}
	return &settler{setup: with, finisher: f, deletes: newDeletions(base, with, f), hung: hangs}
}

// commit commits the unit of work of a fold, or of a reaction's answer, and deletes the messages ms[i], for each i of
// ends, with it. Their renewal pauses, so that the newest receipts stay the newest. It goes on where nothing was
// deleted.
func (s *settler) commit(ctx context.Context, work storage.Work, ms []*message, ends []int) (storage.ETag, []handling.Ended, error) {
	for _, i := range ends {
		work.Delete = append(work.Delete, storage.Claim{Queue: ms[i].queue, Receipt: ms[i].claim.settle()})
	}
	done, err := s.store.Commit(ctx, work)
	if err != nil {
		for _, i := range ends {
			ms[i].claim.resume()
		}
		return "", nil, err
	}
	ended := make([]handling.Ended, len(ends))
	for i, claim := range work.Delete {
		ended[i] = handling.Deleted
		if slices.Contains(done.Stale, claim) {
			ended[i] = handling.Stale
		}
	}
	return done.ETag, ended, nil
}

// conclude ends a delivery by the outcome of its handling.
func (s *settler) conclude(ctx context.Context, m *message, o handling.Outcome) {
	if !m.claim.end() {
		return
	}
	switch {
	case o.Err != nil:
		s.settle(ctx, m, o.Err)
	case o.Ended == handling.Stale: // another worker has the message, and needs its body
		s.lose(m)
	case o.Ended == handling.Deleted:
		s.finisher.done(m)
		s.finisher.dropBody(ctx, m)
		s.finisher.released(m)
	default:
		m.endSpan() // it waits for others to be deleted with
		s.deletes.add(m)
	}
}

// lose drops a message that another worker has, or may have.
func (s *settler) lose(m *message) { s.finisher.lose(m) }

// settle ends a delivery that did not succeed.
func (s *settler) settle(ctx context.Context, m *message, err error) {
	if context.Cause(ctx) == ErrDraining && !isUnknown(err) {
		s.finisher.report.logCutOff(ctx, m, ErrDraining, err)
		s.handBack(ctx, m, 0, nil) // the handler may have failed because it was told to stop
		return
	}
	if m.claim.isLost() && !isUnknown(err) { // else it goes to the poison queue if nobody else has it
		s.finisher.report.logCutOff(ctx, m, ErrOwnershipLost, err)
		s.finisher.released(m) // the handler may have failed because of that; the worker that has the message now decides
		return
	}
	v := verdict.Judge(err)
	m.judged(v)
	e := m.history()
	switch v.Action {
	case verdict.ToPoison:
		if v.Spent && m.began.Load() != nil { // the handler said so, not a step before it
			e.Attempts++
		}
		s.poison(ctx, m, v.Reason, err)
	case verdict.TryAgain:
		s.finisher.report.logFailure(ctx, m, err)
		s.tryAgain(ctx, m, v)
	case verdict.UnknownKind:
		if m.unknownFor(s.all.UnknownFor) {
			s.poison(ctx, m, handlers.ReasonUnknownKind, err)
			return
		}
		if e.FirstFailed.IsZero() {
			e.FirstFailed = time.Now()
		}
		s.finisher.report.logHandBack(ctx, m, v)
		e.HandBacks++
		s.stats.handedBack.Inc()
		s.rewrite(ctx, m, RetryDelay(e.HandBacks, e.ID), err)
	case verdict.Unavailable:
		s.stats.unavailable.Inc()
		s.finisher.report.logTrouble(ctx, m, err)
		s.handBack(ctx, m, storeDelay, err)
	default:
		if v.After <= 0 {
			v.After = RetryDelay(1, e.ID)
		}
		if by := (*handlers.LaterError)(nil); errors.As(err, &by) && time.Since(later(m.sentAt, m.envelope.Due)) > oldAfter {
			s.stats.old.Inc()
		}
		if v.Wait != "" {
			s.stats.turn(v.Wait)
			v.After = waitDelay(v.After, e.HandBacks+e.Hops)
		}
		s.finisher.report.logHandBack(ctx, m, v)
		s.handBack(ctx, m, v.After, err)
	}
}

// isUnknown reports that an effect may have happened, so that no other delivery may try it.
func isUnknown(err error) bool { return verdict.Judge(err).OutcomeUnknown() }

// tryAgain spends an attempt.
func (s *settler) tryAgain(ctx context.Context, m *message, v verdict.Verdict) {
	e := m.history()
	e.Attempts++
	if e.FirstFailed.IsZero() {
		e.FirstFailed = time.Now()
	}
	if _, hangs := v.Err.(*verdict.HangError); hangs {
		e.Hangs++
	}
	if reason := givesUp(e, s.cfg.MaxAttempts); reason != "" {
		s.poison(ctx, m, reason, v.Err)
		return
	}
	if v.After <= 0 {
		v.After = s.retryDelay(ctx, e.Attempts, e.ID)
	}
	s.stats.retried.Inc()
	s.stats.kindOf(m).failed.Add(1)
	s.rewrite(ctx, m, v.After, v.Err)
}

// givesUp returns the reason for which a message with this history goes to the poison queue, or "".
func givesUp(e *channel.Envelope, most int) string {
	switch {
	case e.Hangs >= maxHangs:
		return handlers.ReasonHangs
	case e.Attempts >= most:
		return handlers.ReasonAttempts
	}
	return ""
}

// retryDelay calls the queue's RetryDelay, which is the user's code.
func (s *settler) retryDelay(ctx context.Context, failed int, id string) (d time.Duration) {
	usercode.Guard("RetryDelay", 1, func(int) time.Duration {
		return s.cfg.RetryDelay(failed, id)
	}, func(_ int, delay time.Duration) {
		d = delay
	}, func(_ int, err error) {
		s.hung.count(err)
		d = RetryDelay(failed, id)
		s.log.LogAttrs(ctx, slog.LevelError, "RetryDelay fails; the default delay is taken", slog.String("queue", s.queue), slog.String("id", id), slog.Int("failed", failed), slog.Any("error", err))
	})
	return d
}

// giveBack hands back a message that was not handled, because the worker stops or too many handlers hang.
func (s *settler) giveBack(ctx context.Context, m *message) {
	if m.claim.end() {
		s.handBack(ctx, m, 0, nil)
	}
}

// handBack hands a message back for no fault of its own. If its handler hasn't begun, a delayed message can still be
// cancelled, so that is a hop.
func (s *settler) handBack(ctx context.Context, m *message, delay time.Duration, cause error) {
	if e := m.history(); m.began.Load() == nil && !e.Due.IsZero() {
		e.Hops++
	} else {
		e.HandBacks++
	}
	s.stats.handedBack.Inc()
	s.rewrite(ctx, m, delay, cause)
}

// rewrite writes the delivery's history into the message and lets it become visible after delay.
func (s *settler) rewrite(ctx context.Context, m *message, delay time.Duration, cause error) {
	defer s.finisher.released(m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	e := *m.history()
	delay = e.Postpone(time.Now(), delay)
	if cause != nil {
		e.LastError = cause.Error()
	}
	if e.DataRef != "" {
		e.Data = nil
	}
	receipt := m.claim.settle()
	body, err := e.Encode()
	if err == nil {
		err = s.q.Rewrite(ctx, receipt, body, delay)
	}
	if errors.Is(err, channel.ErrAttribute) || errors.Is(err, storage.ErrTooLarge) {
		// The message can't take its history: it is not decodable, or too large already. It still ends by
		// MaxDeliveries.
		_, err = s.q.Extend(ctx, receipt, max(delay, storage.MinVisibility))
	}
	switch {
	case isStale(err):
		s.stats.lost.Inc()
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelError, "can't record how a delivery ended; it comes back when its visibility ends", slog.String("id", e.ID), slog.Any("error", err))
	}
}

// wait waits until all outcomes are recorded. No delivery may be concluded meanwhile.
func (s *settler) wait() { s.deletes.wait() }
