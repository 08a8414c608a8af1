package handlers

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Delivery is one received message on its way through its handler.
type Delivery struct {
	Envelope *channel.Envelope // with its data
	Message  any               // decoded, upgraded
	Queue    string
	Handler  *Handler

	// Claim returns the claim on the message for the unit of work that ends the delivery; its renewal stops
	// until Unclaim. Set by the worker.
	Claim   func() storage.Claim
	Unclaim func()

	body   func() error // what the innermost middleware of a fold calls
	folded bool
}

// Resolve finds the handler of a message that came from a queue, and decodes the message. The envelope must have
// its data. Errors are those of channel.Codec's Decode; a kind that is known, but not to this queue, is
// unknown here. An upgrade or a type's own decoding that panics is an error of the message.
func (r *Registry) Resolve(queue string, e *channel.Envelope) (d *Delivery, err error) {
	defer caught(&err)
	kind, ok := r.codec.Current(e.Kind)
	h := r.handlers[queue][kind]
	if !ok || h == nil {
		return nil, fmt.Errorf("%w %s in queue %s", channel.ErrUnknownKind, e.Kind, queue)
	}
	m, err := r.codec.Decode(e)
	if err != nil {
		return nil, err
	}
	return &Delivery{Envelope: e, Message: m, Queue: queue, Handler: h}, nil
}

// Group names the document that a delivery is for. Deliveries of one group are handled together.
type Group struct {
	folder *folder
	key    string
}

// Group returns the delivery's group; ok is false for one that is handled alone. A key function that panics is
// an error of the message.
func (d *Delivery) Group() (g Group, ok bool, err error) {
	if d.Handler.folder == nil {
		return Group{}, false, nil
	}
	defer caught(&err)
	key := d.Handler.key(d.Message)
	if err := storage.CheckKey(key); err != nil {
		return Group{}, false, Poison(ReasonBadKey, fmt.Errorf("%s: %w", d.Handler.name, err))
	}
	return Group{folder: d.Handler.folder, key: key}, true, nil
}

// Handle runs a group of deliveries, or one that is alone, and returns how each ended. deleted is true when
// those that ended well have been deleted with it.
func Handle(ctx context.Context, g Group, ds []*Delivery) (errs []error, deleted bool) {
	if g.folder != nil {
		return g.folder.apply(ctx, g.key, ds), true
	}
	errs = make([]error, len(ds))
	for i, d := range ds {
		errs[i] = d.Handler.run(channel.Handling(ctx, d.Envelope, d.Queue), d)
	}
	return errs, false
}

// folder folds deliveries into the documents of one collection. Its generic type is known to newFolder only.
type folder struct {
	apply func(ctx context.Context, key string, ds []*Delivery) []error
}

func newFolder[V any](c *values.Collection[V]) *folder {
	return &folder{apply: func(ctx context.Context, key string, ds []*Delivery) []error {
		changes := make([]values.Change[V], len(ds))
		for i, d := range ds {
			fold := d.Handler.fold.(func(V, *Delivery) (V, []channel.Message, error))
			changes[i] = values.Change[V]{Envelope: d.Envelope, Claim: d.Claim, Unclaim: d.Unclaim, Fold: func(v V) (next V, events []channel.Message, err error) {
				if d.folded { // the value may share memory with the message, and later folds may have changed it
					if d.Message, err = d.Handler.decode(d.Envelope); err != nil {
						return v, nil, err
					}
				}
				d.folded = true
				next = v // a middleware may end the message without running its fold
				d.body = func() error {
					to, told, err := fold(v, d)
					if err == nil {
						next, events = to, told
					}
					return err
				}
				err = d.Handler.run(ctx, d)
				return next, events, err
			}}
		}
		return c.Apply(ctx, key, changes)
	}}
}
