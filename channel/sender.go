package channel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

// Channels sends into the queues of a store, by routes.
type Channels struct {
	store  *storage.Store
	routes *Routes
	source string
}

// New returns channels that send on behalf of source, a URI reference such as "/web".
func New(store *storage.Store, routes *Routes, source string) (*Channels, error) {
	if err := checkSource(source); err != nil {
		return nil, fmt.Errorf("channel: source %s: %w", storage.Quote(source), err)
	}
	return &Channels{store: store, routes: routes, source: source}, nil
}

// Routes returns the routes.
func (c *Channels) Routes() *Routes { return c.routes }

// Store returns the store that holds the queues.
func (c *Channels) Store() *storage.Store { return c.store }

// A Sender is the sending end of the channel of one type of message. It can't receive. Safe for concurrent use.
type Sender[M Message] struct {
	channels *Channels
}

// SenderOf returns the sender for a type of message. A type without a route is an error.
func SenderOf[M Message](c *Channels) (*Sender[M], error) {
	if _, err := c.routes.queues(KindOf[M]()); err != nil {
		return nil, err
	}
	return &Sender[M]{channels: c}, nil
}

// Send sends messages and returns when all are durable. The package's laws say what holds for errors and repeats.
func (s *Sender[M]) Send(ctx context.Context, messages ...M) error {
	return s.SendAfter(ctx, 0, messages...)
}

// SendAfter sends messages that can't be received before delay has passed. The delay is at most [storage.MaxDelay].
// With a negative delay the messages were due in the past, and are sent at once.
//
// Under a handler's context a derived ID carries the time of the handled message's ID plus the delay. So a message may
// send its successor with a delay for ever. Two things to mind:
//
//   - The ID is derived from the delay, too. A handler that runs again must ask for the same delay, or it sends another
//     message. Compute the delay from the handled message, not from the clock, or let the message choose its ID (see
//     [Identified]).
//   - The time that messages wait and run beyond their delays is not in their IDs. A chain that has lost a month by
//     that is too old to judge.
func (s *Sender[M]) SendAfter(ctx context.Context, delay time.Duration, messages ...M) error {
	p, err := s.pack(ctx, delay, messages)
	if err != nil {
		return err
	}
	return s.channels.SendPacked(ctx, p)
}

// SendWith writes a document and sends messages as one unit of work. The document comes first; where the store is
// atomic, both happen or neither. An error that matches [storage.LostRace] means that the document's condition failed
// and nothing was sent.
func (s *Sender[M]) SendWith(ctx context.Context, w storage.Write, messages ...M) (storage.ETag, error) {
	p, err := s.pack(ctx, 0, messages)
	if err != nil {
		return "", err
	}
	done, err := s.channels.store.Commit(ctx, storage.Work{Write: &w, Send: p.Sends})
	return done.ETag, s.channels.sent(ctx, p, err)
}

func (s *Sender[M]) pack(ctx context.Context, delay time.Duration, messages []M) (Packed, error) {
	delay = max(delay, 0)
	if err := storage.CheckDelay(delay); err != nil {
		return Packed{}, fmt.Errorf("channel: send %s: %w", KindOf[M](), err)
	}
	envelopes := make([]Envelope, len(messages))
	for i, m := range messages {
		e, err := s.channels.envelope(ctx, m, delay)
		if err != nil {
			return Packed{}, fmt.Errorf("channel: send %s: message %d of %d: %w", m.Kind(), i+1, len(messages), err)
		}
		envelopes[i] = e
	}
	goroutines := runtime.GOMAXPROCS(0) // the writer has nothing to do until they are packed
	if ctx.Value(handlingKey{}) != nil {
		goroutines = 1 // a worker's processors are busy
	}
	p, err := s.channels.packBy(ctx, goroutines, envelopes)
	for i := range p.Sends {
		p.Sends[i].Message.Delay = delay
	}
	return p, err
}

// SendPacked sends packed messages. The errors are those of Send.
func (c *Channels) SendPacked(ctx context.Context, p Packed) error {
	_, err := c.store.Commit(ctx, storage.Work{Send: p.Sends})
	return c.sent(ctx, p, err)
}

// sent cleans up after a send. It deletes the claim-checked bodies when certainly no message refers to them.
func (c *Channels) sent(ctx context.Context, p Packed, err error) error {
	if err == nil {
		return nil
	}
	if storage.LostRace(err) || errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
		c.Discard(ctx, p)
	}
	return fmt.Errorf("channel: send: %w", err)
}

// envelope makes the envelope of a message sent under ctx.
func (c *Channels) envelope(ctx context.Context, m Message, delay time.Duration) (Envelope, error) {
	data, err := EncodeBody(m)
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
	if h, ok := ctx.Value(handlingKey{}).(*handling); ok {
		if e.ID == "" {
			e.ID = h.childID(e.Kind, data, delay)
		}
		e.Follow(&h.envelope)
		return e, nil
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	t, _ := ctx.Value(traceKey{}).(Trace)
	e.TraceParent, e.Tenant = t.Parent, t.Tenant
	return e, nil
}

// Follow marks the envelope as brought about by another message: it gets that message's correlation, trace and tenant.
func (e *Envelope) Follow(parent *Envelope) {
	e.Causation, e.TraceParent, e.Tenant = parent.ID, parent.TraceParent, parent.Tenant
	e.Correlation = parent.Correlation
	if e.Correlation == "" {
		e.Correlation = parent.ID
	}
}

// EncodeBody encodes a message by encoding/json's rules, but escapes nothing that need not be. So a body has the same
// bytes in a message, a blob and a document. Text that is not UTF-8 is an error, which names the member.
func EncodeBody(m any) ([]byte, error) {
	b, err := jsonform.Encode(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	return b, nil
}

func decodeBody[M any](data []byte) (M, error) {
	m, err := jsonform.Decode[M](data)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrBody, Unfit[M](err))
	}
	return m, nil
}

// checkType refuses a type of message whose content would not arrive.
func checkType[M Message]() error {
	if _, err := jsonform.Check(reflect.TypeFor[M]()); err != nil {
		return fmt.Errorf("kind %s: %w", KindOf[M](), err)
	}
	return nil
}
