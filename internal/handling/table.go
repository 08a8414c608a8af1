package handling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// A Handler handles one kind of message from a queue.
type Handler struct {
	name     string
	queue    string
	kind     wire.Kind
	as       As
	channels *channel.Channels                      // that the messages come through
	run      func(context.Context, *Delivery) error // the reaction, or the waiting for the fold, with the middleware around it
	wrapped  bool                                   // there is middleware

	key        func(*wire.Envelope, any) (key string, ok bool) // of handlers that fold or take turns
	collection string
	value      reflect.Type // of the collection's values
	folder     *folder
	turns      *turns
	decode     func(*wire.Envelope) (any, error)
	try        func(context.Context, *Delivery) (wire.Tried, error)
	fold       any // func(V, *wire.Envelope, any) (V, []wire.Message, error), for the folder's V

	timeout time.Duration // of a delivery that is handled alone
	late    error         // the cause when timeout has passed
}

// Name names the handler for people: "decide capacity", "react mails".
func (h *Handler) Name() string { return h.name }

// Kind is the kind it handles.
func (h *Handler) Kind() wire.Kind { return h.kind }

// A Table holds handlers by queue and kind, and the codec of all messages.
type Table struct {
	codec  *wire.Codec
	queues map[string]map[wire.Kind]*Handler
}

// Queues returns the queues that have handlers, sorted.
func (t *Table) Queues() []string { return slices.Sorted(maps.Keys(t.queues)) }

// Of returns the handlers of a queue, by kind.
func (t *Table) Of(queue string) []*Handler {
	return slices.SortedFunc(maps.Values(t.queues[queue]), func(a, b *Handler) int {
		if a.kind < b.kind {
			return -1
		}
		return 1
	})
}

// add adds a handler, unless its queue has one for its kind.
func (t *Table) add(h *Handler) error {
	if t.queues[h.queue] == nil {
		t.queues[h.queue] = map[wire.Kind]*Handler{}
	}
	if old := t.queues[h.queue][h.kind]; old != nil {
		return fmt.Errorf("%s: queue %s has a handler for %s already: %s", h.name, h.queue, h.kind, old.name)
	}
	t.queues[h.queue][h.kind] = h
	return nil
}

// find returns the handler of a kind in a queue, after all upgrades, or nil.
func (t *Table) find(queue string, k wire.Kind) *Handler {
	current, ok := t.codec.Current(k)
	if !ok {
		return nil
	}
	return t.queues[queue][current]
}

// KeyInBody reports that the body of a message tells which turn it takes: its handler is by handlers.OneAtATime.
func (t *Table) KeyInBody(queue string, k wire.Kind) bool {
	h := t.find(queue, k)
	return h != nil && h.turns != nil && !h.turns.ordered
}

// Resolve finds the handler of a message that came from a queue, decodes the message, and finds the document it is for.
// The envelope must have its data. Errors are those of wire.Codec's Decode, and these:
//
//   - A kind that is known, but not to this queue, is an unknown kind.
//   - A key that no document can have is poison.
//   - A message that its own Check refuses is poison.
//   - A panic in an upgrade, in a type's own decoding or in a key function is an error of the message.
//
// That code may also end the goroutine: see [usercode.Guard]. With the error of a Check, d may be there for [Failing].
func (t *Table) Resolve(queue string, e *wire.Envelope) (d *Delivery, err error) {
	err = usercode.Do(func() (err error) {
		d, err = t.resolve(queue, e)
		return verdict.Settled(err)
	})
	return d, err
}

func (t *Table) resolve(queue string, e *wire.Envelope) (*Delivery, error) {
	h := t.find(queue, e.Kind)
	if h == nil {
		return nil, fmt.Errorf("%w %s in queue %s", wire.ErrUnknownKind, e.Kind, queue)
	}
	m, err := t.codec.Decode(e)
	if errors.Is(err, wire.ErrBody) {
		return nil, verdict.Poison(verdict.ReasonUndecodable, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Delivery{Envelope: e, Message: m, Queue: queue, Handler: h}
	if err := wire.CheckMessage(m); err != nil {
		return d.keyOfRefused(), verdict.Poison(verdict.ReasonRefused, err)
	}
	if h.key != nil {
		concerned := false
		if d.key, concerned = h.key(e, m); !concerned {
			d.ignored = true
			return d, nil
		}
		if err := storage.CheckKey(d.key); err != nil {
			return nil, verdict.Poison(verdict.ReasonBadKey, fmt.Errorf("%s: %w", h.name, err))
		}
	}
	return d, nil
}
