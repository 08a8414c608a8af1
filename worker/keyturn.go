package worker

import (
	"context"
	"log/slog"

	"github.com/millrace-go/millrace/handlers"
)

// takeTurn runs the messages of a key one after the other, under the key's turn, or hands them back. It returns those
// that are left when the turn has taken long enough. The deliveries end after the turn is written: a process that dies
// before that repeats them, and none is forgotten that the next one waits for.
func (h *hand) takeTurn(ctx context.Context, id handlers.Group, batch []*message) (left []*message) {
	of, ds := map[*handlers.Delivery]*message{}, make([]*handlers.Delivery, 0, len(batch))
	for _, m := range batch {
		if !m.ours(h.renewer.owned()) {
			h.settler.lose(m)
			continue
		}
		m.delivery.Arrived = later(m.sentAt, m.envelope.Due)
		of[m.delivery], ds = m, append(ds, m.delivery)
	}
	if len(ds) == 0 {
		return nil
	}
	outcomes := map[*message]handlers.Outcome{}
	turn, err := id.TakeTurn(ctx, ds, func(n handlers.TurnNote) { h.noteTurn(ctx, n) })
	if err != nil {
		for _, m := range of {
			outcomes[m] = handlers.Outcome{Err: err}
		}
	} else {
		left = h.inTurn(ctx, turn, ds, of, outcomes)
	}
	ended := make([]*message, 0, len(outcomes))
	for _, d := range ds { // in their order, which the settler need not keep
		if _, ok := outcomes[of[d]]; ok {
			ended = append(ended, of[d])
		}
	}
	each(ended, func(m *message) { h.settler.conclude(ctx, m, outcomes[m]) })
	return left
}

// inTurn runs messages until the turn is over, and ends it.
func (h *hand) inTurn(ctx context.Context, turn *handlers.Turn, ds []*handlers.Delivery, of map[*handlers.Delivery]*message, outcomes map[*message]handlers.Outcome) (left []*message) {
	var done []*message
	for i, d := range ds {
		if h.idle() || i > 0 && turn.Over() {
			for _, d := range ds[i:] {
				left = append(left, of[d])
			}
			break
		}
		m := of[d]
		repeat, err := turn.Waits(d)
		switch {
		case repeat:
		case err != nil:
			outcomes[m] = handlers.Outcome{Err: err}
			continue
		default:
			o, ok := h.runInTurn(ctx, turn, m)
			if !ok {
				continue
			}
			if outcomes[m] = o; o.Err != nil {
				continue
			}
		}
		outcomes[m] = handlers.Outcome{}
		done = append(done, m)
	}
	if err := turn.End(ctx); err != nil {
		for _, m := range done {
			outcomes[m] = handlers.Outcome{Err: err}
		}
	}
	return left
}

// runInTurn runs the handler of a message. It reports false for a message that this worker has lost.
func (h *hand) runInTurn(ctx context.Context, turn *handlers.Turn, m *message) (handlers.Outcome, bool) {
	own, ok := m.start(ctx, h.renewer.owned())
	if !ok {
		h.settler.lose(m)
		return handlers.Outcome{}, false
	}
	began := h.started(m)
	o := turn.Handle(own, m.delivery, nil)
	h.ended(began, []handlers.Outcome{o})
	m.cancel(nil)
	turn.Ended(m.delivery, o, h.settler.poisons(ctx, m, o.Err))
	return o, true
}

// noteTurn counts and logs what happens to turns. The lines name messages, never keys, which may be personal.
func (h *hand) noteTurn(ctx context.Context, n handlers.TurnNote) {
	h.stats.turn(n.What)
	level, event := slog.LevelWarn, ""
	switch n.What {
	case handlers.TurnGap:
		event = "an event waits for one before it that has not come"
	case handlers.TurnPassed:
		event = "a message that should come first has not come; the others of its key go past it"
	case handlers.TurnHalt:
		level, event = slog.LevelError, "a message halts its key; the others of the key wait until it is sent back and done, or until an operator releases the key"
	case handlers.TurnLost:
		event = "the turn of a key was lost, or could not be ended"
	default:
		return
	}
	attrs := []slog.Attr{slog.String("id", n.Message)}
	if n.Err != nil {
		attrs = append(attrs, slog.Any("error", n.Err))
	}
	h.log.LogAttrs(ctx, level, event, attrs...)
}
