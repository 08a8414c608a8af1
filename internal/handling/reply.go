package handling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// Reply registers a reaction that answers by messages, of any kind that has a route; see handlers.Reply.
func Reply[M channel.Message](r *Registry, as As, name, queue string, f func(ctx context.Context, e *channel.Envelope, m M) ([]channel.Message, error)) {
	h := register[M](r, as, name, queue)
	if h == nil {
		return
	}
	h.react(r, f == nil, func(ctx context.Context, d *Delivery) error {
		d.answer.set(nil) // of an earlier run
		var messages []channel.Message
		err := Watched(r, false, func(ctx context.Context, m M) (err error) {
			messages, err = f(ctx, d.Envelope, m)
			return err
		})(ctx, d.Message.(M))
		if err != nil {
			return err
		}
		envelopes, err := d.compose(ctx, messages)
		if err == nil {
			d.answer.set(envelopes)
		}
		return err
	})
}

// compose makes the envelopes of an answer. They continue the trace of the reaction's call.
func (d *Delivery) compose(ctx context.Context, messages []channel.Message) ([]channel.Envelope, error) {
	handling, ok := wire.HandlingUnder(ctx)
	if !ok {
		return nil, errors.New("handlers: a reply outside of a handler's context")
	}
	now, parent := time.Now(), tracing.ParentIn(ctx)
	all := make([]channel.Envelope, len(messages))
	for i, m := range messages {
		e, err := wire.ComposeUnder(handling, m, d.Handler.channels.Outbox().Source, now)
		if err != nil {
			return nil, fmt.Errorf("%s: message %d of %d, %T: %w", d.Handler.name, i+1, len(messages), wire.Unwrap(m), err)
		}
		if parent != "" {
			e.TraceParent = parent
		}
		all[i] = e
	}
	return all, nil
}

// answer is what a reaction replies. A middleware may run the reaction from several goroutines, and may leave one of
// them behind.
type answer struct {
	mu       sync.Mutex
	messages []channel.Envelope
	taken    bool
}

func (a *answer) set(messages []channel.Envelope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.taken {
		a.messages = messages
	}
}

func (a *answer) take() []channel.Envelope {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = true
	return a.messages
}

// send sends the answer and ends the delivery in one unit of work. Without a commit it only sends.
func (d *Delivery) send(ctx context.Context, messages []channel.Envelope, commit Commit) (out Outcome) {
	channels := d.Handler.channels
	if d.span != nil {
		ctx = tracing.WithBatch(ctx, []tracing.Span{d.span})
	}
	ctx, span := channels.Tracer().Commit(ctx, d.Queue, 1)
	defer func() { tracing.End(span, out.Err) }()
	packed, err := channels.Outbox().Pack(ctx, messages...)
	if err != nil {
		return Outcome{Err: fmt.Errorf("%s: %w", d.Handler.name, err)}
	}
	if commit == nil {
		return Outcome{Err: channels.Outbox().SendPacked(ctx, packed)}
	}
	_, ended, err := commit(ctx, storage.Work{Send: packed.Sends}, []int{0})
	if err != nil {
		if errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
			channels.Outbox().Discard(ctx, packed) // certainly nothing was sent
		}
		return Outcome{Err: fmt.Errorf("%s: %w", d.Handler.name, err)}
	}
	return Outcome{Ended: ended[0]}
}
