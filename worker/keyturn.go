package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// A round is the messages of a key that run in one turn.
type round struct {
	setup
	settler *settler
	starts  *starts
	owned   time.Duration // since the last proof: so long no other worker can have a message

	turn     *handling.Turn
	of       map[*handling.Delivery]*message
	outcomes map[*message]handling.Outcome
	noted    []*message // those whose outcomes hold only if the turn is written
}

// newRound returns an empty round of a key.
func newRound(with setup, s *settler, st *starts, owned time.Duration) *round {
	return &round{
		setup: with, settler: s, starts: st, owned: owned,
		of: map[*handling.Delivery]*message{}, outcomes: map[*message]handling.Outcome{},
	}
}

// takeTurn runs the messages of a key one after the other, under the key's turn, or hands them back. It returns those
// that are left when the turn has taken long enough. The deliveries end after the turn is written: a process that dies
// before that repeats them, and none is forgotten that the next one waits for, or that halts its key. A message that
// failed before its handler takes its turn, too, and fails in it.
func (r *round) takeTurn(ctx context.Context, id handling.Group, batch []*message) (left []*message) {
	ds := make([]*handling.Delivery, 0, len(batch))
	for _, m := range batch {
		if !m.claim.ours(r.owned) {
			r.settler.lose(m)
			continue
		}
		m.delivery.Arrive(later(m.sentAt, m.envelope.Due), m.deliveries)
		r.of[m.delivery], ds = m, append(ds, m.delivery)
	}
	if len(ds) == 0 {
		return nil
	}
	var err error
	if r.turn, err = id.TakeTurn(ctx, ds, func(n handling.TurnNote) { r.note(ctx, n) }); err == nil {
		left = r.run(ctx, ds)
	} else {
		for _, m := range r.of {
			r.outcomes[m] = handling.Outcome{Err: err}
		}
	}
	each(slices.Collect(maps.Keys(r.outcomes)), func(m *message) { r.settler.conclude(ctx, m, r.outcomes[m]) })
	return left
}

// run runs messages until the turn is over, and ends it.
func (r *round) run(ctx context.Context, ds []*handling.Delivery) (left []*message) {
	for i, d := range ds {
		if r.starts.stopped() || i > 0 && (r.turn.Over() || r.holdsUp(ds, i)) {
			for _, d := range ds[i:] {
				left = append(left, r.of[d])
			}
			break
		}
		m := r.of[d]
		if o, ours := r.runNext(ctx, m); ours {
			r.outcomes[m] = o
		}
	}
	if err := r.turn.End(ctx); err != nil {
		for _, m := range r.noted {
			if !isUnknown(r.outcomes[m].Err) { // else no other delivery may try it
				r.outcomes[m] = handling.Outcome{Err: err}
			}
		}
	}
	return left
}

// holdsUp reports that the turn may have a handler of the Reserve, and no urgent message is left for it.
func (r *round) holdsUp(ds []*handling.Delivery, i int) bool {
	urgent := func(d *handling.Delivery) bool { return !r.of[d].lower }
	return r.cfg.Reserve.slots() > 0 && slices.ContainsFunc(ds[:i], urgent) && !slices.ContainsFunc(ds[i:], urgent)
}

// runNext ends a message in the turn, unless that has to wait. It reports false for one that this worker has lost.
func (r *round) runNext(ctx context.Context, m *message) (o handling.Outcome, ours bool) {
	done, err := r.turn.Waits(m.delivery)
	if err != nil {
		return handling.Outcome{Err: err}, true
	}
	poisoned, after := false, time.Duration(0)
	if !done {
		if o, ours = r.handle(ctx, m); !ours {
			r.settler.lose(m)
			return o, false
		}
		poisoned, after = r.judge(ctx, m, o.Err)
		r.turn.Ended(m.delivery, o, poisoned, after)
	}
	if poisoned || o.Err == nil && r.turn.Awaited(m.delivery) {
		r.noted = append(r.noted, m)
	}
	return o, true
}

// handle runs the handler of a message, unless the message has failed before. It reports false for a message that this
// worker has lost.
func (r *round) handle(ctx context.Context, m *message) (o handling.Outcome, ours bool) {
	if m.bad != nil {
		m.beginSpan(&r.setup, time.Now())
		return r.turn.Handle(ctx, m.delivery, nil), m.claim.ours(r.owned)
	}
	own, ours := m.claim.start(ctx, r.owned)
	if !ours {
		return o, false
	}
	began := r.starts.started(m)
	o = r.turn.Handle(own, m.delivery, nil)
	r.starts.ended(began, []handling.Outcome{o})
	m.claim.own.End(nil)
	return o, true
}

// judge tells what the settler will make of the error of a message's handler: whether the message goes to the poison
// queue, and else when it comes again.
func (r *round) judge(ctx context.Context, m *message, err error) (poisoned bool, after time.Duration) {
	if err == nil || !isUnknown(err) && (context.Cause(ctx) == ErrDraining || m.claim.isLost()) {
		return false, 0
	}
	v, e := verdict.Judge(err), m.envelope
	switch v.Action {
	case verdict.TryAgain:
	case verdict.UnknownKind:
		return m.unknownFor(r.all.UnknownFor), RetryDelay(e.HandBacks+1, e.ID)
	default:
		return v.Action == verdict.ToPoison, v.After
	}
	e.Attempts++
	if _, hangs := err.(*verdict.HangError); hangs {
		e.Hangs++
	}
	if givesUp(&e, r.cfg.MaxAttempts) != "" {
		return true, 0
	}
	if v.After <= 0 {
		v.After = r.settler.retryDelay(ctx, e.Attempts, e.ID)
	}
	return false, v.After
}

// note counts and logs what happens to turns. The lines name messages, never keys, which may be personal.
func (r *round) note(ctx context.Context, n handling.TurnNote) {
	r.stats.turn(n.What)
	level, event := slog.LevelWarn, ""
	switch n.What {
	case handling.TurnGap:
		event = "an event waits for one before it that has not come"
	case handling.TurnPassed:
		event = "a message that should come first has not come; the others of its key go past it"
	case handling.TurnHalt:
		level, event = slog.LevelError, "a message halts its key; the others of the key wait until it is sent back and done, or until an operator releases the key"
	case handling.TurnLost:
		event = "the turn of a key was lost, or could not be ended"
	default:
		return
	}
	attrs := []slog.Attr{slog.String("id", n.Message)}
	if n.Err != nil {
		attrs = append(attrs, slog.Any("error", n.Err))
	}
	r.log.LogAttrs(ctx, level, event, attrs...)
}
