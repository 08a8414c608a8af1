package draft

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
)

// Complete checks the body of a message that a person has written, and gives it the form that every body has. If this
// binary has the code that handles it in one of the queues, the message is decoded and checked, too, and chooses the ID
// and the subject that it hasn't got yet. form is the body in that form, without what the program's type makes of it.
func Complete(c *act.Call, e *channel.Envelope, queues []string, about *catalog.Kind) (form []byte, err error) {
	if len(about.Schema) == 0 {
		c.Note("no schema of %s is published, so the JSON is not held against one.", e.Kind)
	}
	if err := Check(e.Data, about.Schema); err != nil {
		return nil, err
	}
	if form, err = Form(e.Data); err != nil {
		return nil, err
	}
	e.Data = form
	for _, q := range queues {
		if !Handles(c.Desk, q, e.Kind) {
			continue
		}
		err := usercode.Contain(func() error {
			trial := *e
			d, err := c.Registry.Inside().Handlers.Resolve(q, &trial) // which runs the message's Check
			if refused := (*handlers.PoisonError)(nil); errors.As(err, &refused) {
				return refused.Err
			}
			if err != nil {
				return err
			}
			return choose(e, d.Message)
		})
		if err != nil {
			return form, c.OfGiven(err, c.Veiled(err.Error()))
		}
		return form, nil
	}
	return form, nil
}

// Handles reports that this binary has the code that handles a kind from a queue.
func Handles(d *act.Desk, queue string, kind channel.Kind) bool {
	return slices.ContainsFunc(d.Handled, func(h wire.Handled) bool { return h.Queue == queue && h.Kind == kind })
}

// choose takes a message's own body, ID and subject. It calls the user's code.
func choose(e *channel.Envelope, message any) error {
	if m, ok := message.(channel.Message); ok && m.Kind() == e.Kind { // otherwise it is of an older kind
		data, err := wire.EncodeBody(m)
		if err != nil {
			return err
		}
		e.Data = data
	}
	if x, ok := message.(channel.Identified); ok && e.ID == "" {
		e.ID = x.MessageID()
	}
	if x, ok := message.(channel.Subjected); ok {
		e.Subject = x.Subject()
	}
	return nil
}

// Send sends a message to a queue, whatever the routes of this binary say.
func Send(ctx context.Context, c *channel.Channels, queue string, e channel.Envelope) error {
	packed, err := c.Outbox().PackFor(ctx, queue, e)
	if err != nil {
		return err
	}
	return c.Outbox().SendPacked(ctx, packed)
}
