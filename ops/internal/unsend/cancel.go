package unsend

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A Message is what is known of a message that waits in a queue.
type Message struct {
	Queue, ID string
	Kind      channel.Kind // "" if nobody knows it
}

// Cancel takes a message back, and fills in its kind. Where the store shows no way to delete the message, noted is
// true: a note of the cancellation is left for the worker that takes the message.
func (m *Message) Cancel(ctx context.Context, desk *act.Desk) (noted bool, err error) {
	q := desk.Store.Queue(m.Queue)
	found, e, err := m.locate(ctx, q)
	if err != nil {
		return false, err
	}
	all, err := outbox(desk)
	seen := e != nil
	switch {
	case err != nil:
		return false, err
	case !seen && desk.Store.Finds():
		return false, m.notWaiting(ctx, q)
	case seen && (e.Attempts+e.HandBacks > 0 || found.Deliveries > e.Hops):
		return false, m.hadError()
	case seen:
		m.Kind = e.Kind
	case m.Kind == "":
		return false, act.Usage("add --kind KIND: this store doesn't show the message")
	}
	if seen && found.Receipt != "" {
		err := m.withdraw(ctx, q, all, found, e)
		if errors.Is(err, storage.ErrReceiptStale) {
			return false, m.hadError()
		}
		return false, err
	}
	if seen && found.ReadyAt.IsZero() {
		return false, fmt.Errorf("message %s is ready, and this store can't find a message by its ID: pause the queue, let a worker take the message, or purge the queue", storage.Quote(m.ID))
	}
	return true, all.Cancellations().CancelIn(ctx, m.Queue, m.Kind, m.ID)
}

// locate looks for the message among those that are shown. e is nil if none is the one.
func (m *Message) locate(ctx context.Context, q *storage.Queue) (found storage.Peeked, e *channel.Envelope, err error) {
	for p, err := range q.Peek(ctx) {
		switch {
		case errors.Is(err, storage.ErrUnsupported):
			return p, nil, nil
		case err != nil:
			return p, nil, err
		}
		if e, err := wire.Decode(p.Body); err == nil && m.is(&e) {
			return p, &e, nil
		}
	}
	return storage.Peeked{}, nil, nil
}

// is reports that an envelope is that of the message.
func (m *Message) is(e *channel.Envelope) bool {
	return e.ID == m.ID && (m.Kind == "" || e.Kind == m.Kind)
}

// notWaiting says why the message is not shown by a store that shows all that wait.
func (m *Message) notWaiting(ctx context.Context, q *storage.Queue) error {
	found, err := q.Find(ctx, m.ID)
	if err != nil {
		return err
	}
	for _, d := range found {
		if e, err := wire.Decode(d.Body); err == nil && m.is(&e) {
			return fmt.Errorf("message %s is not taken back: a worker has it", storage.Quote(m.ID))
		}
	}
	return act.Nothing("no message %s waits in queue %s; a worker may have it", storage.Quote(m.ID), m.Queue)
}

// hadError says that the message stays, because it may have had its effect.
func (m *Message) hadError() error {
	return fmt.Errorf("message %s is not taken back: a worker has it or has had it", storage.Quote(m.ID))
}

// withdraw deletes the message and its body.
func (m *Message) withdraw(ctx context.Context, q *storage.Queue, all *wire.Outbox, found storage.Peeked, e *channel.Envelope) error {
	if err := q.Delete(ctx, []storage.Receipt{found.Receipt}); err != nil {
		return err
	}
	return deleteBody(ctx, all, m.Queue, e)
}

// deleteBody deletes the body of a message that was deleted, if it lies beside the message.
func deleteBody(ctx context.Context, all *wire.Outbox, queue string, e *channel.Envelope) error {
	if e.DataRef == "" || e.CheckDataRef(queue) != nil {
		return nil
	}
	return all.DeleteBody(context.WithoutCancel(ctx), e.DataRef)
}

// outbox is an outbox over all lanes of the desk's queues.
func outbox(desk *act.Desk) (*wire.Outbox, error) {
	routes, err := channel.NewRoutes()
	if err != nil {
		return nil, err
	}
	all, err := channel.New(desk.Store, routes, act.Source)
	if err != nil {
		return nil, err
	}
	return all.Outbox(), nil
}
