package channel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/storage"
)

// Channels sends into the queues of a store, by routes.
type Channels struct {
	store  *storage.Store
	routes *Routes
	source string
	outbox *post.Outbox
	sent   atomic.Int64 // commands
}

// New returns channels that send on behalf of source, a URI reference such as "/web".
func New(store *storage.Store, routes *Routes, source string) (*Channels, error) {
	if store == nil || routes == nil { // the caller has not looked at an error
		return nil, errors.New("channel: the store is nil, or the routes are: check the errors of the driver's Open and of NewRoutes")
	}
	if err := post.CheckSource(source); err != nil {
		return nil, fmt.Errorf("channel: source %s: %w", storage.Quote(source), err)
	}
	return &Channels{store: store, routes: routes, source: source, outbox: post.NewOutbox(store, routes.queues)}, nil
}

// Routes returns the routes.
func (c *Channels) Routes() *Routes { return c.routes }

// Store returns the store that holds the queues.
func (c *Channels) Store() *storage.Store { return c.store }

// Sent returns how many commands these channels have sent. A command that was sent twice counts twice.
func (c *Channels) Sent() int64 { return c.sent.Load() }

// count counts messages of a kind that were sent.
func (c *Channels) count(k Kind, messages int) {
	if c.routes.byKind[k].command {
		c.sent.Add(int64(messages))
	}
}

// Outbox is for this module's own packages. Its type is internal, so use a [Sender] instead.
func (c *Channels) Outbox() *post.Outbox { return c.outbox }

// A Sender is the sending end of the channel of one type of message. It can't receive. Safe for concurrent use.
type Sender[M Message] struct {
	channels *Channels
}

// NewSender returns the sender for a type of message. A type without a route is an error.
func NewSender[M Message](c *Channels) (*Sender[M], error) {
	if _, err := c.routes.queues(KindOf[M]()); err != nil {
		return nil, err
	}
	return &Sender[M]{channels: c}, nil
}

// Send sends messages and returns when all are durable. See the package's laws on errors and repeats.
func (s *Sender[M]) Send(ctx context.Context, messages ...M) error {
	return s.SendAfter(ctx, 0, messages...)
}

// SendAfter sends messages that can't be received before delay has passed. The delay is at most [storage.MaxDelay].
// Messages with a negative delay were due in the past and are sent at once.
//
// Under a handler's context a derived ID carries the time of the handled message's ID plus the delay. So a message may
// send its successor with a delay for ever. Two things to mind:
//
//   - The ID is derived from the delay, too. A handler that runs again must ask for the same delay, or it sends another
//     message. Compute the delay from the handled message, not from the clock, or let the message choose its ID (see
//     [Identified]).
//   - The time that messages wait and run beyond their delays is not in their IDs. When that adds up to a month, the
//     chain's next message is too old to be judged.
func (s *Sender[M]) SendAfter(ctx context.Context, delay time.Duration, messages ...M) error {
	p, err := s.pack(ctx, delay, messages)
	if err != nil {
		return err
	}
	if err := s.channels.outbox.SendPacked(ctx, p); err != nil {
		return err
	}
	s.channels.count(KindOf[M](), len(messages))
	return nil
}

// SendWith writes a document and sends messages as one unit of work. The document comes first; where the store is
// atomic, both happen or neither. An error that matches [storage.LostRace] means that the document's condition failed
// and nothing was sent.
func (s *Sender[M]) SendWith(ctx context.Context, w storage.Write, messages ...M) (storage.ETag, error) {
	p, err := s.pack(ctx, 0, messages)
	if err != nil {
		return "", err
	}
	tag, err := s.channels.outbox.SendWith(ctx, &w, p)
	if err == nil {
		s.channels.count(KindOf[M](), len(messages))
	}
	return tag, err
}

func (s *Sender[M]) pack(ctx context.Context, delay time.Duration, messages []M) (post.Packed, error) {
	delay = max(delay, 0)
	if err := storage.CheckDelay(delay); err != nil {
		return post.Packed{}, fmt.Errorf("channel: send %s: %w", KindOf[M](), err)
	}
	envelopes := make([]Envelope, len(messages))
	for i, m := range messages {
		e, err := s.channels.envelope(ctx, m, delay)
		if err != nil {
			return post.Packed{}, fmt.Errorf("channel: send %s: message %d of %d: %w", m.Kind(), i+1, len(messages), err)
		}
		envelopes[i] = e
	}
	goroutines := runtime.GOMAXPROCS(0) // the writer has nothing to do until they are packed
	if _, handling := post.HandlingUnder(ctx); handling {
		goroutines = 1 // a worker's processors are busy
	}
	p, err := s.channels.outbox.PackBy(ctx, goroutines, envelopes)
	for i := range p.Sends {
		p.Sends[i].Message.Delay = delay
	}
	return p, err
}

// envelope makes the envelope of a message sent under ctx.
func (c *Channels) envelope(ctx context.Context, m Message, delay time.Duration) (Envelope, error) {
	data, err := post.EncodeBody(m)
	if err != nil {
		return Envelope{}, err
	}
	e := Envelope{Source: c.source, Kind: m.Kind(), Time: time.Now(), Data: data}
	if x, ok := m.(Identified); ok {
		e.ID = x.MessageID()
	}
	if x, ok := m.(Subjected); ok {
		e.Subject = x.Subject()
	}
	if h, ok := post.HandlingUnder(ctx); ok {
		if e.ID == "" {
			e.ID = childID(h, e.Kind, data, delay)
		}
		e.Follow(&h.Envelope)
		return e, nil
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	t, _ := ctx.Value(traceKey{}).(Trace)
	e.TraceParent, e.Tenant = t.Parent, t.Tenant
	return e, nil
}
