package handlers

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// Attempt returns which attempt at its message a handler is: n counts from 1, and counts what a handler has refused: a
// run that died with its process spends no attempt, so n == 1 may come again. most is how many there are at most, by
// the queue's worker.QueueConfig. When n >= most fails, the message goes to the poison queue. A handler that wants
// fewer attempts than its queue gives them returns [Poison]:
//
//	if n, _ := handlers.Attempt(ctx); n >= 3 {
//		return handlers.Poison("declined", err)
//	}
//
// A message may also go to the poison queue earlier, such as after three hangs. Both numbers are 0 outside of a
// handler; most is 0 where no worker runs it. A decision has no context and no attempts: it is pure.
func Attempt(ctx context.Context) (n, most int) {
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return 0, 0
	}
	return h.Envelope.Attempts + 1, wire.MostAttempts(ctx)
}

// Poisoned says why a message goes to the poison queue. It is also in the entry there.
type Poisoned struct {
	ID         string
	Queue      string // that it came from: of an event, the subscriber group's
	Reason     string // Reason…, or that of [Poison]
	Error      string
	Attempts   int       // how often a handler said no, with the last time
	Deliveries int       // how often it was delivered
	First      time.Time // of the first failure
	Last       time.Time // when it was given up
}

// OnPoison registers the compensation for a kind of messages: f returns the messages that the program sends when one of
// that kind goes to the poison queue, for any reason and from any queue of this registry.
//
//   - Look at why.Reason: a message that is too old, or whose ID another content has, is compensated, too, although the
//     original may be applied.
//   - f is pure. emits has a value of every type of message that f can return, as for [Decide]. A delay counts from
//     why.Last.
//   - The entry in the poison queue, the compensation and the end of the message are one unit of work. Where the store
//     isn't atomic, a worker that finds the entry of another, which died, ends that unit and runs no handler.
//     If an operator discards the entry before that, the handler runs although the compensation may be sent.
//   - The IDs of a compensation follow from the message's ID and content, and from its queue. So a message that is
//     retried and poisoned again has the same compensation, and it is done once. Leave out of it what may differ then,
//     such as why.Error: other content under the same ID is refused.
//   - f gets the message decoded and upgraded, even if its own Check refuses it. It isn't called for a message whose
//     body is gone or doesn't fit its type.
//   - f gets a message that kills its workers, too; its handler doesn't run then. If f kills them three times, the
//     message goes to the poison queue without a compensation.
//   - When f fails, or returns messages that can't be sent, the message goes to the poison queue without a
//     compensation. The log and the entry (poison.Entry) say why.
func OnPoison[M channel.Message](r *Registry, f func(m M, why Poisoned) []channel.Message, emits ...channel.Message) {
	kind := channel.KindOf[M]()
	declared := r.declare(onPoison(kind), emits)
	compensate(r, "", kind, f == nil, func(_ *channel.Envelope, m M, why Poisoned) ([]channel.Message, error) {
		messages := f(m, why)
		return messages, declared.check(messages)
	})
}

// OnPoisonAs is [OnPoison] for this module's own packages, for messages of one queue. The program may compensate them,
// too. x.Kind is the kind of the messages, where that of M depends on its value. f also gets the envelope, and may
// return messages of any kind that has a route.
func OnPoisonAs[M channel.Message](x wire.Inside, r *Registry, queue string, f func(e *channel.Envelope, m M, why Poisoned) []channel.Message) {
	compensate(r, queue, wire.KindIn[M](x), f == nil, func(e *channel.Envelope, m M, why Poisoned) ([]channel.Message, error) {
		return f(e, m, why), nil
	})
}

func onPoison(k channel.Kind) string { return fmt.Sprintf("on poison: %s", k) }

// compensate registers the compensation of a kind, or reports that there is none.
func compensate[M channel.Message](r *Registry, queue string, kind channel.Kind, none bool, f func(*channel.Envelope, M, Poisoned) ([]channel.Message, error)) {
	by, at := onPoison(kind), poisonedAt{queue, kind}
	if err := wire.RegisterAs[M](&r.codec, kind); err != nil {
		r.fault("%s: %w", by, err)
		return
	}
	if none {
		r.fault("%s: the function is nil", by)
	}
	if r.givenUp[at] != nil {
		r.fault("%s: registered twice; want one function that looks at why.Queue", by)
		return
	}
	r.givenUp[at] = func(e *channel.Envelope, m any, why Poisoned) ([]channel.Message, error) { return f(e, m.(M), why) }
}

// poisonedAt is where a compensation applies: to a kind, after all upgrades, in one queue or in any.
type poisonedAt struct {
	queue string // empty: any
	kind  channel.Kind
}

// compensations are the functions of OnPoison.
type compensations map[poisonedAt]func(*channel.Envelope, any, Poisoned) ([]channel.Message, error)

// of returns the functions for a message in a queue.
func (c compensations) of(queue string, kind channel.Kind) (all []func(*channel.Envelope, any, Poisoned) ([]channel.Message, error)) {
	for _, at := range []poisonedAt{{queue, kind}, {"", kind}} {
		if f := c[at]; f != nil {
			all = append(all, f)
		}
	}
	return all
}

// unhandled returns the faults of functions whose messages the registry doesn't handle.
func (c compensations) unhandled(r *Registry) (faults []error) {
	for at := range c {
		handled := false
		for name, queue := range r.handlers {
			handled = handled || queue[at.kind] != nil && (at.queue == "" || at.queue == name)
		}
		if !handled {
			faults = append(faults, fmt.Errorf("on poison: %s: this registry has no handler for it; register both in the same program", at.kind))
		}
	}
	return faults
}

// Compensates reports that [OnPoison] has a function for messages of a kind in a queue.
func (r *Registry) Compensates(queue string, k channel.Kind) bool {
	current, ok := r.codec.Current(k)
	return ok && len(r.givenUp.of(queue, current)) > 0
}

// Compensate returns the compensation of a message, which must have its data; see [OnPoison]. Any failure of the user's
// code is an error.
func (r *Registry) Compensate(e *channel.Envelope, why Poisoned) (sent []channel.Envelope, err error) {
	type result struct {
		sent []channel.Envelope
		err  error
	}
	Guard("the function of OnPoison", 1, func(int) (x result) {
		x.err = contained(func() (err error) {
			x.sent, err = r.compensate(e, why)
			return settled(err)
		})
		return x
	}, func(_ int, x result) { sent, err = x.sent, x.err }, func(_ int, failed error) { err = failed })
	return sent, err
}

func (r *Registry) compensate(e *channel.Envelope, why Poisoned) (sent []channel.Envelope, err error) {
	current, _ := r.codec.Current(e.Kind)
	m, err := any(nil), channel.ErrDataLost
	if e.Data != nil || e.DataRef == "" {
		m, err = r.codec.Decode(e)
	}
	if err != nil {
		return nil, fmt.Errorf("the message can't be decoded: %w", err)
	}
	var messages []channel.Message
	for _, f := range r.givenUp.of(why.Queue, current) {
		more, err := f(e, m, why)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	for i, m := range messages {
		x, err := wire.ComposeCompensation(e, why.Queue, i, m, why.Last)
		if err != nil {
			return nil, fmt.Errorf("message %d of %d, %T: %w", i+1, len(messages), wire.Unwrap(m), err)
		}
		sent = append(sent, x)
	}
	return sent, nil
}
