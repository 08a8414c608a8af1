package handling

import (
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
)

// Poisoned says why a message goes to the poison queue. Users know it as handlers.Poisoned.
type Poisoned struct {
	ID         string
	Queue      string // that it came from: of an event, the subscriber group's
	Reason     string // Reason…, or that of Poison
	Error      string
	Attempts   int       // how often a handler said no, with the last time
	Deliveries int       // how often it was delivered
	First      time.Time // of the first failure
	Last       time.Time // when it was given up
}

// compensation is a function of handlers.OnPoison, without the type of its messages.
type compensation func(*channel.Envelope, any, Poisoned) ([]channel.Message, error)

// poisonedAt is where a compensation applies: to a kind, after all upgrades, in one queue or in any.
type poisonedAt struct {
	queue string // empty: any
	kind  channel.Kind
}

// Compensations are the functions of handlers.OnPoison.
type Compensations struct {
	codec *wire.Codec
	all   map[poisonedAt]compensation
}

// OnPoison registers the compensation of the messages of one queue, or of all queues if it is empty; see
// handlers.OnPoison. Both may be registered for a kind. f may return messages of any kind that has a route.
func OnPoison[M channel.Message](r *Registry, as As, queue string, f func(e *channel.Envelope, m M, why Poisoned) ([]channel.Message, error)) {
	at := poisonedAt{queue, kindAs[M](as)}
	by := NameOnPoison(at.kind)
	if err := wire.RegisterAs[M](r.Handlers.codec, at.kind); err != nil {
		r.Faults.addf("%s: %w", by, err)
		return
	}
	if f == nil {
		r.Faults.addf("%s: the function is nil", by)
	}
	err := r.Compensations.add(at, func(e *channel.Envelope, m any, why Poisoned) ([]channel.Message, error) { return f(e, m.(M), why) })
	if err != nil {
		r.Faults.Add(err)
	}
}

// NameOnPoison names the compensation of a kind for people.
func NameOnPoison(k channel.Kind) string { return fmt.Sprintf("on poison: %s", k) }

func (c *Compensations) add(at poisonedAt, f compensation) error {
	if c.all[at] != nil {
		return fmt.Errorf("%s: registered twice; want one function that looks at why.Queue", NameOnPoison(at.kind))
	}
	c.all[at] = f
	return nil
}

// of returns the functions for messages in a queue whose kind becomes this one.
func (c *Compensations) of(queue string, k channel.Kind) (all []compensation) {
	current, ok := c.codec.Current(k)
	if !ok {
		return nil
	}
	for _, at := range []poisonedAt{{queue, current}, {"", current}} {
		if f := c.all[at]; f != nil {
			all = append(all, f)
		}
	}
	return all
}

// unhandled returns the faults of functions whose messages no handler takes.
func (c *Compensations) unhandled(t *Table) (faults []error) {
	for at := range c.all {
		handled := false
		for name, queue := range t.queues {
			handled = handled || queue[at.kind] != nil && (at.queue == "" || at.queue == name)
		}
		if !handled {
			faults = append(faults, fmt.Errorf("on poison: %s: this registry has no handler for it; register both in the same program", at.kind))
		}
	}
	return faults
}

// Has reports that there is a compensation for messages of a kind in a queue.
func (c *Compensations) Has(queue string, k channel.Kind) bool { return len(c.of(queue, k)) > 0 }

// Make returns the compensation of a message, which must have its data; see handlers.OnPoison. Any failure of the
// user's code is an error.
func (c *Compensations) Make(e *channel.Envelope, why Poisoned) (sent []channel.Envelope, err error) {
	type result struct {
		sent []channel.Envelope
		err  error
	}
	usercode.Guard("the function of OnPoison", 1, func(int) (x result) {
		x.err = usercode.Do(func() (err error) {
			x.sent, err = c.messages(e, why)
			return verdict.Settled(err)
		})
		return x
	}, func(_ int, x result) { sent, err = x.sent, x.err }, func(_ int, failed error) { err = failed })
	return sent, err
}

func (c *Compensations) messages(e *channel.Envelope, why Poisoned) (sent []channel.Envelope, err error) {
	m, err := any(nil), wire.ErrDataLost
	if e.Data != nil || e.DataRef == "" {
		m, err = c.codec.Decode(e)
	}
	if err != nil {
		return nil, fmt.Errorf("the message can't be decoded: %w", err)
	}
	var messages []channel.Message
	for _, f := range c.of(why.Queue, e.Kind) {
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
