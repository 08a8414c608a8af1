package handling

import (
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// Failing returns the delivery of a message that fails before its handler. The message takes its turn only to fail, so
// that the turn's record shows the failure. d is what [Table.Resolve] has returned for the message, or nil. The
// result is nil for a message that takes no turn, or whose key isn't known:
//
//   - In a queue in order, the envelope names the turn and the message's place. So both are known, unless the envelope
//     can't be decoded.
//   - By handlers.OneAtATime the body names the key. It isn't known where the body can't be had, decoded or be given a
//     key.
//
// It is also nil for an error that isn't the message's own: then the message comes again anyway.
func Failing(r *Registry, queue string, e *channel.Envelope, d *Delivery, err error) *Delivery {
	t := r.Turns.all[queue]
	if t == nil || e.ID == "" {
		return nil
	}
	switch verdict.Judge(err).Action {
	case verdict.ToPoison, verdict.TryAgain, verdict.UnknownKind:
	default:
		return nil
	}
	if t.ordered {
		h := r.Handlers.find(queue, e.Kind)
		if h == nil {
			h = &Handler{name: "in order " + queue, queue: queue, kind: e.Kind, turns: t}
		}
		d = &Delivery{Envelope: e, Queue: queue, Handler: h, key: sourceKey(e.Source)}
	}
	if d == nil || d.ignored || d.Handler.turns == nil {
		return nil
	}
	d.failed = err
	return d
}
