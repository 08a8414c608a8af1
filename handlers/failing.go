package handlers

import (
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// TakesTurns reports that a queue has handlers by [OneAtATime] or [ReactInOrder]. It is for workers.
func TakesTurns(r *Registry, queue string) bool { return r.turns[queue] != nil }

// MayWait is how long a worker may hold a message of a queue before its handler starts: others of its key may have the
// patience of [TurnConfig] to wait for it. It is 0 for a queue without turns. It is for workers.
func MayWait(r *Registry, queue string) time.Duration {
	if t := r.turns[queue]; t != nil {
		return t.cfg.Patience / (leastRounds + 1)
	}
	return 0
}

// KeyInBody reports that the body of a message tells which turn it takes: its handler is by [OneAtATime]. It is for
// workers.
func KeyInBody(r *Registry, queue string, k channel.Kind) bool {
	current, _ := r.codec.Current(k)
	h := r.handlers[queue][current]
	return h != nil && h.turns != nil && !h.turns.ordered
}

// Failing returns the delivery of a message that fails before its handler. The message takes its turn only to fail, so
// that the turn's record shows the failure. d is what [Registry.Resolve] has returned for the message, or nil. The
// result is nil for a message that takes no turn, or whose key isn't known:
//
//   - In a queue in order, the envelope names the turn and the message's place. So both are known, unless the envelope
//     can't be decoded.
//   - By [OneAtATime] the body names the key. It isn't known where the body can't be had, decoded or be given a key.
//
// It is also nil for an error that isn't the message's own: then the message comes again anyway. Failing is for
// workers.
func Failing(r *Registry, queue string, e *channel.Envelope, d *Delivery, err error) *Delivery {
	t := r.turns[queue]
	if t == nil || e.ID == "" {
		return nil
	}
	switch Judge(err).Action {
	case ToPoison, TryAgain, UnknownKind:
	default:
		return nil
	}
	if t.ordered {
		current, _ := r.codec.Current(e.Kind)
		h := r.handlers[queue][current]
		if h == nil {
			h = &Handler{name: "in order " + queue, queue: queue, kind: e.Kind, turns: t}
		}
		d = &Delivery{Envelope: e, Queue: queue, Handler: h, key: sourceKey(e.Source)}
	}
	if d == nil || d.ignored || d.Handler.turns == nil {
		return nil
	}
	d.Failed = err
	return d
}

// keyOfRefused gives the delivery of a message that its own Check refuses its key. It returns nil for one that takes no
// turn, or has none. The function for the key may rely on what Check refuses, and panic.
func (d *Delivery) keyOfRefused() (keyed *Delivery) {
	if d.Handler.turns == nil {
		return nil
	}
	_ = contain.Do(func() {
		if key, ok := d.Handler.key(d.Envelope, d.Message); ok && storage.CheckKey(key) == nil {
			d.key, keyed = key, d
		}
	})
	return keyed
}
