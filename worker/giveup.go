package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// compensations is how often a message that kills its workers is given to the function of OnPoison, which may be what
// kills them. Then the message goes to the poison queue without it.
const compensations = 3

const (
	poisonAgain     = 100 * time.Millisecond // to the second try to write a message of unknown outcome to the poison queue
	poisonAgainMost = 3 * time.Second        // between two tries: less than the time for which a try hides the message
	poisonGrace     = 2 * time.Second        // for tries of a worker whose time to finish is over
)

// poison moves a message to the poison queue, and sends its compensation.
func (s *settler) poison(ctx context.Context, m *message, reason string, cause error) {
	defer s.finisher.released(m)
	entry := m.entry // of a worker that has begun this before
	if entry == nil {
		entry = &poison.Entry{
			Queue: s.queue, Reason: reason, Error: poison.ErrorText(cause.Error()), Attempts: m.history().Attempts, Deliveries: m.deliveries,
			First: firstTime(m).UTC(), Last: time.Now().UTC(), Worker: s.all.Name,
			ID: m.envelope.ID, Kind: m.envelope.Kind, Body: m.body,
		}
	}
	attrs := append(m.attrs(), slog.String("reason", reason), slog.Any("error", cause))
	if m.delivery == nil && s.registry.Turns.Has(s.queue) {
		attrs = append(attrs, slog.String("turn", "the key of the message can't be known, so it halts none"))
	}
	made, failed := s.compensate(m, entry)
	ctx = context.WithoutCancel(ctx)
	failed, err := putAgain(ctx, s, m, entry, made, failed)
	switch {
	case failed != nil:
		attrs = append(attrs, slog.Any("uncompensated", failed), stackOf(failed))
	case len(made) > 0:
		attrs = append(attrs, slog.Int("emitted", len(made)))
	}
	switch {
	case isStale(err): // the worker that has the message now decides
		s.stats.lost.Inc()
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelError, "can't write to the poison queue; the message comes back when its visibility ends", append(attrs, slog.Any("trouble", err))...)
	default:
		s.stats.poisoned.Inc()
		s.stats.kindOf(m).failed.Add(1)
		tracing.Poison(m.tracedBy(), reason)
		s.log.LogAttrs(ctx, slog.LevelError, "message is in the poison queue", attrs...)
	}
}

func firstTime(m *message) time.Time {
	if t := m.history().FirstFailed; !t.IsZero() {
		return t
	}
	return m.received
}

// stackOf is where the user's code failed, if that is known.
func stackOf(err error) slog.Attr {
	switch err := err.(type) {
	case *handlers.PanicError:
		return slog.String("stack", err.Stack)
	case *verdict.HangError:
		return slog.String("stack", err.Stack)
	}
	return slog.Attr{}
}

// errKillsAgain says that the function of OnPoison is no longer called.
var errKillsAgain = errors.New("the message went on killing its workers when only the function of OnPoison had it")

// compensate returns the messages of a poisoned message's compensation.
func (s *settler) compensate(m *message, e *poison.Entry) ([]channel.Envelope, error) {
	switch {
	case !s.registry.Compensations.Has(s.queue, m.envelope.Kind):
		return nil, nil
	case m.silentDeliveries >= s.all.MaxDeliveries+compensations:
		return nil, errKillsAgain
	}
	made, err := s.registry.Compensations.Make(&m.envelope, handlers.Poisoned{
		ID: e.ID, Queue: s.queue, Reason: e.Reason, Error: e.Error, Attempts: e.Attempts, Deliveries: e.Deliveries, First: e.First, Last: e.Last,
	})
	s.hung.count(err)
	if span := m.tracedBy(); span != nil {
		for i := range made {
			made[i].TraceParent = tracing.ParentIn(tracing.Under(context.Background(), span))
		}
	}
	return made, err
}

// putAgain puts a message into the poison queue. Where its outcome is unknown it tries again while the store fails,
// until another worker has the message or the time to finish is over: the handler must not run again. Each try proves
// first that nobody else has the message, and hides it until the next one.
func putAgain(ctx context.Context, s *settler, m *message, e *poison.Entry, made []channel.Envelope, failed error) (uncompensated, err error) {
	began := time.Now()
	for wait := poisonAgain; ; wait = min(2*wait, poisonAgainMost) {
		try, cancel := context.WithTimeout(ctx, outcomeTime)
		uncompensated, err = s.putPoison(try, m, e, made, failed)
		cancel()
		if err == nil || e.Reason != handlers.ReasonOutcomeUnknown || isStale(err) || isRefused(err) {
			return uncompensated, err
		}
		if wait == poisonAgain {
			s.log.LogAttrs(ctx, slog.LevelWarn, "can't write to the poison queue; it is tried again, because the message's outcome is unknown", m.id(), slog.Any("error", err))
		}
		var stopped <-chan struct{} // nil: the first tries are made although the worker stops
		if time.Since(began) > poisonGrace {
			stopped = s.stopped
		}
		select {
		case <-time.After(wait):
		case <-stopped:
			return uncompensated, err
		}
	}
}

// isRefused reports that the store takes an entry never.
func isRefused(err error) bool {
	return errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge)
}

// putPoison puts a message into the poison queue and sends its compensation, or notes in the entry why there is none.
// Messages that can't be sent are such a reason.
func (s *settler) putPoison(ctx context.Context, m *message, e *poison.Entry, made []channel.Envelope, failed error) (uncompensated, err error) {
	outbox := s.registry.Channels.Outbox()
	var packed wire.Packed
	if failed == nil && len(made) > 0 {
		packed, err = outbox.Pack(ctx, made...)
		var store *storage.Error
		if errors.As(err, &store) {
			return nil, err
		}
		failed = err
	}
	e.Emitted, e.Uncompensated = nil, ""
	if failed != nil {
		e.Uncompensated = failed.Error()
	} else {
		for _, x := range made {
			e.Emitted = append(e.Emitted, x.ID)
		}
	}
	err = poison.Put(ctx, s.store, &m.envelope, *e, func(ctx context.Context) (storage.Claim, error) {
		err := m.claim.prove(ctx, s.q, 2*outcomeTime) // ours for longer than ctx lasts
		return storage.Claim{Queue: m.queue, Receipt: m.claim.settle()}, err
	}, packed.Sends...)
	refused := isRefused(err)
	if refused || isStale(err) { // nothing was sent
		outbox.Discard(ctx, packed)
	}
	if refused && len(packed.Sends) > 0 {
		return s.putPoison(ctx, m, e, nil, err)
	}
	return failed, err
}

// findGivenUp looks for the entry of a message that may be given up, and keeps it. The error poisons the message.
func (s *settler) findGivenUp(ctx context.Context, m *message) error {
	e, err := poison.Begun(ctx, s.store, s.queue, &m.envelope, m.body)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	m.entry = &e
	return handlers.Poison(e.Reason, errors.New(e.Error))
}
