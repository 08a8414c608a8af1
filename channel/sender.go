package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// Channels sends into the queues of a store, by routes.
type Channels struct {
	store  *storage.Store
	routes *Routes
	source string
	outbox *wire.Outbox
	tracer *tracing.Tracer
	sent   *atomic.Int64 // commands
	spool  wire.Spool    // nil for none
	log    *slog.Logger  // nil: that of package slog
}

// New returns channels that send on behalf of source, a URI reference such as "/web".
func New(store *storage.Store, routes *Routes, source string) (*Channels, error) {
	if store == nil || routes == nil { // the caller has not looked at an error
		return nil, errors.New("channel: the store is nil, or the routes are: check the errors of the driver's Open and of NewRoutes")
	}
	if err := wire.CheckSource(source); err != nil {
		return nil, fmt.Errorf("channel: source %s: %w", storage.Quote(source), err)
	}
	store, err := wire.WithLanes(store, routes.Lanes())
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	outbox := wire.NewOutbox(store, routes.QueuesOf)
	outbox.Source = source
	return &Channels{store: store, routes: routes, source: source, outbox: outbox, tracer: tracing.New(nil), sent: new(atomic.Int64)}, nil
}

// TraceWith returns the same channels with another provider of OpenTelemetry spans. All that works through channels has
// their provider: senders, handlers, collections and workers. Channels of New have the global one, which
// otel.SetTracerProvider sets at any time.
func (c *Channels) TraceWith(p trace.TracerProvider) *Channels {
	traced := *c
	traced.tracer = tracing.New(p)
	return &traced
}

// LogTo returns the same channels with a logger. All that works through channels and has no logger of its own logs
// there: registries of handlers, and views. Channels of New have slog.Default().
func (c *Channels) LogTo(l *slog.Logger) *Channels {
	logging := *c
	logging.log = l
	return &logging
}

// Logger returns the logger of LogTo.
func (c *Channels) Logger() *slog.Logger {
	if c == nil || c.log == nil {
		return slog.Default()
	}
	return c.log
}

// Routes returns the routes.
func (c *Channels) Routes() *Routes { return c.routes }

// Store returns the store that holds the queues. Where a queue has lanes, this store shows it as one queue. The store
// that New was given doesn't.
func (c *Channels) Store() *storage.Store { return c.store }

// Sent returns how many commands these channels have sent. A command that was sent twice counts twice.
func (c *Channels) Sent() int64 { return c.sent.Load() }

// count counts commands that were sent.
func (c *Channels) count(envelopes []Envelope) {
	var last Kind
	command := false
	n := int64(0)
	for i := range envelopes {
		if k := envelopes[i].Kind; k != last {
			last, command = k, c.routes.IsCommand(k)
		}
		if command {
			n++
		}
	}
	c.sent.Add(n)
}

// Outbox is for this module's own packages. Its type is internal, so use a [Sender] instead.
func (c *Channels) Outbox() *wire.Outbox { return c.outbox }

// Tracer is for this module's own packages, too.
func (c *Channels) Tracer() *tracing.Tracer { return c.tracer }

// A Sender is the sending end of the channel of one type of message. It can't receive. Safe for concurrent use.
type Sender[M Message] struct {
	channels *Channels
}

// NewSender returns the sender for a type of message. A type without a route is an error.
func NewSender[M Message](c *Channels) (*Sender[M], error) {
	if _, err := c.routes.QueuesOf(KindOf[M]()); err != nil {
		return nil, err
	}
	return &Sender[M]{channels: c}, nil
}

// Send sends messages and returns when all are durable. See the package's laws on errors and repeats.
func (s *Sender[M]) Send(ctx context.Context, messages ...M) error {
	_, err := send(ctx, s.channels, nil, wire.When{}, messages)
	return err
}

// SendAfter sends messages that are due after a delay of at most ten years. Messages with a negative delay were due in
// the past and are sent at once. [Channels.Send] does the same with the messages that [After] returns.
//
// Under a handler's context the ID is derived from the delay, too. A handler that runs again must ask for the same
// delay, or it sends another message. So compute the delay from the handled message, not from the clock; or use
// SendAt, or let the message choose its ID (see [Identified]). The message's age counts from the time of the handled
// message plus the delay, so that a repeat has the same age. A value object's emissions count from when they are due.
func (s *Sender[M]) SendAfter(ctx context.Context, delay time.Duration, messages ...M) error {
	_, err := send(ctx, s.channels, nil, wire.When{Delay: delay}, messages)
	return err
}

// SendAt sends messages that are due at a time, at most ten years ahead. Messages that were due in the past are sent at
// once.
func (s *Sender[M]) SendAt(ctx context.Context, t time.Time, messages ...M) error {
	_, err := send(ctx, s.channels, nil, wire.When{At: t}, messages)
	return err
}

// Cancel takes back a message that was sent with a delay and isn't due yet, by its ID; an event, from the queues of all
// its groups. Let the message choose its ID (see [Identified]), so that you know it. nil means that no handler gets the
// message. An error that matches [ErrNotDelayed] means that it doesn't wait any more, in one queue at least: it was
// handled, is being handled, was cancelled before, or was never sent with a delay. After any other error cancel again.
//
// Either Cancel gets the message or a worker does, and Cancel knows which, where the store finds messages (see
// [storage.Store.Finds]; SQLite does). The message leaves its queue at once.
//
// Elsewhere (Azure) Cancel can't know. It writes a tombstone and returns nil, even if there is no such message. The
// worker that takes the message finds the tombstone and deletes both. A worker that has taken the message before
// handles it: that race is lost, and nobody is told. So cancel well before the message is due, or let its handler
// decide by what it finds: a value object that knows that the order is paid ignores the reminder. A tombstone goes a
// month after its message has come, as others are cancelled. One whose message never comes is kept for ten years.
//
// A message that is sent with the same ID after Cancel is another one, and is handled. The clocks of the two callers
// tell what is after a tombstone. A handler that runs again also sends its messages again. Cancel takes effect at once,
// within a handler, too: it is no part of a unit of work.
//
// Where channels have a spool, messages may wait in it, or be set aside there until they are tried again. A store that
// finds messages doesn't know of these. So Cancel returns an error that matches storage.ErrUnavailable until the spool
// is empty; then cancel again.
func (s *Sender[M]) Cancel(ctx context.Context, id string) error {
	if c := s.channels; c.spool != nil && c.store.Finds() && c.spool.Unsent() > 0 {
		return fmt.Errorf("channel: cancel %s %s: %w: messages are in the spool, perhaps this one: cancel again when it is empty", KindOf[M](), storage.Quote(id), storage.ErrUnavailable)
	}
	return s.channels.outbox.Cancellations().Cancel(ctx, KindOf[M](), id)
}

// SendWith writes a document and sends messages as one unit of work. The document comes first; where the store is
// atomic, both happen or neither. An error that matches [storage.LostRace] means that the document's condition failed
// and nothing was sent.
func (s *Sender[M]) SendWith(ctx context.Context, w storage.Write, messages ...M) (storage.ETag, error) {
	return send(ctx, s.channels, &w, wire.When{}, messages)
}

// Send sends messages of any kinds as one unit of work, and returns when all are durable. Where the store is atomic,
// all are sent or none; see the package's laws. Messages may be those of [After] and [At].
func (c *Channels) Send(ctx context.Context, messages ...Message) error {
	_, err := send(ctx, c, nil, wire.When{}, messages)
	return err
}

// SendWith is [Channels.Send] that also writes a document, first, as part of the unit of work. See [Sender.SendWith].
func (c *Channels) SendWith(ctx context.Context, w storage.Write, messages ...Message) (storage.ETag, error) {
	return send(ctx, c, &w, wire.When{}, messages)
}

// send writes a document, unless it is nil, and sends messages that are due later, or that say themselves when they are
// due.
func send[M Message](ctx context.Context, c *Channels, w *storage.Write, when wire.When, messages []M) (etag storage.ETag, err error) {
	var rows *storage.Rows
	if w != nil {
		rows, messages = wire.TakeRows(messages)
	}
	from := c.originOf(ctx)
	envelopes, err := compose(from, when, messages)
	if err != nil {
		return "", err
	}
	goroutines := runtime.GOMAXPROCS(0) // the writer has nothing to do until they are packed
	if from.handling != nil {
		goroutines = 1 // a worker's processors are busy
	}
	ctx, span := c.tracer.Send(ctx, c.outbox, envelopes)
	defer func() { tracing.End(span, err) }()
	try := func(ctx context.Context) error {
		p, err := c.outbox.PackBy(ctx, goroutines, envelopes)
		if p.Rows = rows; err == nil {
			etag, err = c.outbox.SendWith(ctx, w, p)
		}
		return err
	}
	switch {
	case c.spool == nil, from.handling != nil, len(envelopes) == 0:
		err = try(ctx)
	case w != nil:
		if err = c.spool.Away(); err == nil {
			err = try(ctx)
		}
	default:
		err = c.sendOrSpool(ctx, envelopes, try)
	}
	if err == nil {
		c.count(envelopes)
	}
	return etag, err
}

// compose makes the envelopes of messages.
func compose[M Message](from origin, when wire.When, messages []M) ([]Envelope, error) {
	now := time.Now()
	envelopes := make([]Envelope, len(messages))
	for i, x := range messages {
		m := Message(x)
		if when != (wire.When{}) {
			m = wire.Wrapped{Message: m, When: when}
		}
		e, err := from.envelope(m, now)
		if err != nil {
			return nil, fmt.Errorf("channel: send %s: message %d of %d: %w", kindName(m), i+1, len(messages), err)
		}
		envelopes[i] = e
	}
	return envelopes, nil
}

// kindName names the kind of a message in an error. A message that is nil has none.
func kindName(m Message) (name string) {
	if contain.Do(func() { name = string(m.Kind()) }) != nil {
		return fmt.Sprintf("%T", wire.Unwrap(m))
	}
	return name
}

// An origin is where messages come from.
type origin struct {
	source   string
	handling *wire.Handling // the message that is being handled, or nil
	trace    Trace          // otherwise
	priority *Priority      // of the context; nil: that of the handled message
}

// originOf returns the origin of messages that are sent under a context.
func (c *Channels) originOf(ctx context.Context) origin {
	o := origin{source: c.source}
	if p, ok := ctx.Value(priorityKey{}).(Priority); ok {
		o.priority = &p
	}
	if h, ok := wire.HandlingUnder(ctx); ok {
		o.handling = h
		return o
	}
	o.trace, _ = ctx.Value(traceKey{}).(Trace)
	if parent := tracing.ParentIn(ctx); parent != "" {
		o.trace.Parent = parent
	}
	return o
}

// envelope makes the envelope of a message.
func (o *origin) envelope(m Message, now time.Time) (Envelope, error) {
	var e Envelope
	var err error
	if o.handling != nil {
		e, err = wire.ComposeUnder(o.handling, m, o.source, now)
	} else {
		e, err = wire.Compose(m, o.source, now)
		e.TraceParent, e.Tenant = o.trace.Parent, o.trace.Tenant
	}
	if o.priority != nil {
		e.Priority = wire.PriorityName(*o.priority)
	}
	return e, err
}
