package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	deleteBatch = 512
	storeDelay  = 2 * time.Second // before a message is tried again after the store failed
)

func isStale(err error) bool { return errors.Is(err, storage.ErrReceiptStale) }

// commit commits a fold's unit of work and deletes the messages ms[i], for each i of ends, with it. Their renewal
// pauses, so that the newest receipts stay the newest. It goes on where nothing was deleted.
func (c *consumer) commit(ctx context.Context, work storage.Work, ms []*message, ends []int) (storage.ETag, []handlers.Ended, error) {
	for _, i := range ends {
		work.Delete = append(work.Delete, ms[i].claim())
	}
	done, err := c.w.store.Commit(ctx, work)
	if err != nil {
		for _, i := range ends {
			ms[i].resumeRenewal()
		}
		return "", nil, err
	}
	ended := make([]handlers.Ended, len(ends))
	for i, claim := range work.Delete {
		ended[i] = handlers.Deleted
		if slices.Contains(done.Stale, claim) {
			ended[i] = handlers.Stale
		}
	}
	return done.ETag, ended, nil
}

// conclude ends a delivery by the outcome of its handling.
func (c *consumer) conclude(ctx context.Context, m *message, o handlers.Outcome) {
	if !m.end() {
		return
	}
	switch {
	case o.Err != nil:
		c.settle(ctx, m, o.Err)
	case o.Ended == handlers.Stale: // another worker has the message, and needs its body
		c.stats.lost.Inc()
		c.release(m)
	case o.Ended == handlers.Deleted:
		c.done(m)
		c.dropBody(ctx, m)
		c.release(m)
	default:
		c.finished <- m
	}
}

// finish deletes handled messages, as many at once as have come together.
func (c *consumer) finish(ctx context.Context) {
	batch := make([]*message, 0, deleteBatch)
	receipts := make([]storage.Receipt, 0, deleteBatch)
	for m := range c.finished {
		batch, receipts = append(batch[:0], m), append(receipts[:0], m.claim().Receipt)
	more:
		for len(batch) < deleteBatch {
			select {
			case m, ok := <-c.finished:
				if !ok {
					break more
				}
				batch, receipts = append(batch, m), append(receipts, m.claim().Receipt)
			default:
				break more
			}
		}
		c.delete(ctx, batch, receipts)
		clear(batch) // batch would keep the messages' bodies
	}
}

// delete deletes handled messages and takes them out of hand.
func (c *consumer) delete(ctx context.Context, batch []*message, receipts []storage.Receipt) {
	call, cancel := context.WithTimeout(ctx, outcomeTime)
	err := c.q.Delete(call, receipts)
	cancel()
	if err != nil && !isStale(err) {
		// The messages come back when their visibility ends; replay records and ReactOnce's notes recognise them.
		c.log.LogAttrs(ctx, slog.LevelError, "can't delete handled messages; they will be delivered again", slog.Int("messages", len(batch)), slog.Any("error", err))
		c.stats.unavailable.Add(float64(len(batch)))
		c.release(batch...)
		return
	}
	var stale *storage.StaleError
	errors.As(err, &stale)
	together, bodies := batch[:0], []*message(nil)
	for i, m := range batch {
		if stale != nil && slices.Contains(stale.Receipts, receipts[i]) { // another worker has it, and needs its body
			c.stats.lost.Inc()
		} else {
			c.done(m)
			if m.envelope.DataRef != "" {
				bodies = append(bodies, m)
				continue
			}
		}
		together = append(together, m)
	}
	c.release(together...)
	for _, m := range bodies { // each body takes a request
		c.dropBody(ctx, m)
		c.release(m)
	}
}

// done counts a message that has been handled and deleted.
func (c *consumer) done(m *message) {
	c.logSuccess(m)
	c.stats.done.Inc()
	c.w.handled[c.queue].Add(1)
	if !m.envelope.Time.IsZero() {
		c.stats.lag.Observe(max(0, time.Since(m.envelope.Time)).Seconds())
	}
}

// dropBody deletes the claim-checked body of a message that has been deleted.
func (c *consumer) dropBody(ctx context.Context, m *message) {
	if m.envelope.DataRef == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	if err := c.w.h.Channels().Outbox().DeleteBody(ctx, m.envelope.DataRef); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "a claim-checked body stays behind", slog.Any("error", err))
	}
}

// settle ends a delivery that did not succeed.
func (c *consumer) settle(ctx context.Context, m *message, err error) {
	if context.Cause(ctx) == ErrDraining {
		c.logCutOff(ctx, m, ErrDraining, err)
		c.handBack(ctx, m, 0, nil) // the handler may have failed because it was told to stop
		return
	}
	if m.dropped() {
		c.logCutOff(ctx, m, ErrOwnershipLost, err)
		c.release(m) // the handler may have failed because of that; the worker that has the message now decides
		return
	}
	v := handlers.Judge(err)
	e := m.history()
	switch v.Action {
	case handlers.ToPoison:
		if v.Spent && m.began.Load() != nil { // the handler said so, not a step before it
			e.Attempts++
		}
		c.poison(ctx, m, v.Reason, err)
	case handlers.TryAgain:
		c.logFailure(ctx, m, err)
		c.tryAgain(ctx, m, v)
	case handlers.UnknownKind:
		now := time.Now()
		if e.FirstFailed.IsZero() {
			e.FirstFailed = now
		}
		if now.Sub(e.FirstFailed) > c.cfg.UnknownFor {
			c.poison(ctx, m, handlers.ReasonUnknownKind, err)
			return
		}
		c.logHandBack(ctx, m, v)
		c.handBack(ctx, m, RetryDelay(e.HandBacks+1, e.ID), err)
	case handlers.Unavailable:
		c.stats.unavailable.Inc()
		c.logTrouble(ctx, m, err)
		c.handBack(ctx, m, storeDelay, err)
	default:
		if v.After <= 0 {
			v.After = RetryDelay(1, e.ID)
		}
		c.logHandBack(ctx, m, v)
		c.handBack(ctx, m, v.After, err)
	}
}

// tryAgain spends an attempt.
func (c *consumer) tryAgain(ctx context.Context, m *message, v handlers.Verdict) {
	e := m.history()
	e.Attempts++
	if e.FirstFailed.IsZero() {
		e.FirstFailed = time.Now()
	}
	if _, hangs := v.Err.(*handlers.HangError); hangs {
		e.Hangs++
	}
	switch {
	case e.Hangs >= maxHangs:
		c.poison(ctx, m, handlers.ReasonHangs, v.Err)
		return
	case e.Attempts >= c.cfg.MaxAttempts:
		c.poison(ctx, m, handlers.ReasonAttempts, v.Err)
		return
	case v.After <= 0:
		v.After = c.retryDelay(ctx, e.Attempts, e.ID)
	}
	c.stats.retried.Inc()
	c.rewrite(ctx, m, v.After, v.Err)
}

// giveBack hands back a message that was not handled, because the worker stops or too many handlers hang.
func (c *consumer) giveBack(ctx context.Context, m *message) {
	if m.end() {
		c.handBack(ctx, m, 0, nil)
	}
}

// handBack hands a message back for no fault of its own.
func (c *consumer) handBack(ctx context.Context, m *message, delay time.Duration, cause error) {
	m.history().HandBacks++
	c.stats.handedBack.Inc()
	c.rewrite(ctx, m, delay, cause)
}

// rewrite writes the delivery's history into the message and lets it become visible after delay.
func (c *consumer) rewrite(ctx context.Context, m *message, delay time.Duration, cause error) {
	defer c.release(m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	delay = max(0, min(delay, storage.MaxDelay))
	e := *m.history()
	if cause != nil {
		e.LastError = cause.Error()
	}
	if e.DataRef != "" {
		e.Data = nil
	}
	receipt := m.claim().Receipt
	body, err := e.Encode()
	if err == nil {
		err = c.q.Rewrite(ctx, receipt, body, delay)
	}
	if errors.Is(err, channel.ErrAttribute) || errors.Is(err, storage.ErrTooLarge) {
		// The message can't take its history: it is not decodable, or too large already. It still ends by MaxDeliveries.
		_, err = c.q.Extend(ctx, receipt, max(delay, storage.MinVisibility))
	}
	switch {
	case isStale(err):
		c.stats.lost.Inc()
	case err != nil:
		c.log.LogAttrs(ctx, slog.LevelError, "can't record how a delivery ended; it comes back when its visibility ends", slog.String("id", e.ID), slog.Any("error", err))
	}
}

// poison moves a message to the poison queue.
func (c *consumer) poison(ctx context.Context, m *message, reason string, cause error) {
	defer c.release(m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	err := poison.Put(ctx, c.w.store, &m.envelope, poison.Entry{
		Queue: c.queue, Reason: reason, Error: cause.Error(), Attempts: m.history().Attempts, Deliveries: m.deliveries,
		First: firstTime(m), Last: time.Now(), Worker: c.cfg.Name,
		ID: m.envelope.ID, Kind: m.envelope.Kind, Body: m.body,
	}, func(ctx context.Context) (storage.Claim, error) {
		err := m.prove(ctx, c.q, 2*outcomeTime) // ours for longer than ctx lasts
		return m.claim(), err
	})
	attrs := append(m.attrs(), slog.String("reason", reason), slog.Any("error", cause))
	switch {
	case isStale(err): // the worker that has the message now decides
		c.stats.lost.Inc()
	case err != nil:
		c.log.LogAttrs(ctx, slog.LevelError, "can't write to the poison queue; the message comes back when its visibility ends", append(attrs, slog.Any("trouble", err))...)
	default:
		c.stats.poisoned.Inc()
		c.log.LogAttrs(ctx, slog.LevelError, "message is in the poison queue", attrs...)
	}
}

func firstTime(m *message) time.Time {
	if t := m.history().FirstFailed; !t.IsZero() {
		return t
	}
	return m.received
}
