package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Delivery is one received message on its way through its handler.
type Delivery struct {
	Envelope *channel.Envelope // has its data
	Message  any               // decoded, upgraded
	Queue    string
	Handler  *Handler

	key    string       // of the document that the message is for, where its handler folds
	body   func() error // what the innermost middleware of a fold calls
	folded bool         // its fold has run before
}

// Resolve finds the handler of a message that came from a queue, decodes the message, and finds the document it is for.
// The envelope must have its data. Errors are those of post.Codec's Decode, and these:
//
//   - A kind that is known, but not to this queue, is an unknown kind.
//   - A key that no document can have is poison.
//   - A panic in an upgrade, in a type's own decoding or in a key function is an error of the message.
//
// That code may also end the goroutine: see [Guard].
func (r *Registry) Resolve(queue string, e *channel.Envelope) (d *Delivery, err error) {
	defer caught(&err)
	d, err = r.resolve(queue, e)
	return d, settled(err)
}

func (r *Registry) resolve(queue string, e *channel.Envelope) (*Delivery, error) {
	kind, ok := r.codec.Current(e.Kind)
	h := r.handlers[queue][kind]
	if !ok || h == nil {
		return nil, fmt.Errorf("%w %s in queue %s", channel.ErrUnknownKind, e.Kind, queue)
	}
	m, err := r.codec.Decode(e)
	if errors.Is(err, channel.ErrBody) {
		return nil, Poison(ReasonUndecodable, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Delivery{Envelope: e, Message: m, Queue: queue, Handler: h}
	if h.folder != nil {
		d.key = h.key(m)
		if err := storage.CheckKey(d.key); err != nil {
			return nil, Poison(ReasonBadKey, fmt.Errorf("%s: %w", h.name, err))
		}
	}
	return d, nil
}

// Group names the document that a delivery is for. Deliveries of one group are handled together.
type Group struct {
	folder *folder
	key    string
}

// Group returns the delivery's group; ok is false for a delivery that is handled alone.
func (d *Delivery) Group() (g Group, ok bool) {
	return Group{folder: d.Handler.folder, key: d.key}, d.Handler.folder != nil
}

// An Outcome is what became of a delivery: the error of its handling, and whether the unit of work has ended it.
type Outcome = values.Outcome

// Ended says what the unit of work made of a delivery.
type Ended = values.Ended

// See the constants of the same names in package values. Only a delivery without an error is Deleted or Stale.
const (
	StillThere = values.StillThere
	Deleted    = values.Deleted
	Stale      = values.Stale
)

// A Commit commits the unit of work of a fold, and in it ends the deliveries with these indices. See [values.Commit].
type Commit = values.Commit

// Handle runs a group of deliveries, or one delivery that is alone, and returns the outcome of each. A group's
// deliveries that succeed are ended by commit, in the unit of work that they are folded in; without a commit, and after
// a reaction, they are StillThere. A failure of the user's code is an error of the delivery it was called for: a
// [PanicError] for a panic and for runtime.Goexit, a [HangError] for a call that doesn't end. The returned errors run
// none of the user's code.
func Handle(ctx context.Context, g Group, ds []*Delivery, commit Commit) []Outcome {
	if g.folder != nil {
		outs := g.folder.handle(ctx, g.key, ds, commit)
		settledAll(outs)
		return outs
	}
	outs := make([]Outcome, len(ds))
	for i, d := range ds {
		outs[i].Err = d.handle(ctx)
	}
	return outs
}

// handle runs a reaction.
func (d *Delivery) handle(ctx context.Context) error {
	h := d.Handler
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, h.late)
	defer cancel()
	var err error
	r := start(func(r *run) {
		err = r.user(post.WithHandling(ctx, d.Envelope, d.Queue), 0, d)
	})
	switch _, hung := r.watch(ctx, untilDone); {
	case hung:
		return hangs(r, h.timeout)
	case !r.returned:
		return r.fault
	}
	return err
}

// folder folds deliveries into the documents of one collection. Only newFolder knows its generic type.
type folder struct {
	collection any // the first collection of its name
	apply      func(ctx context.Context, r *run, key string, ds []*Delivery, commit Commit) []Outcome
	timeout    time.Duration
}

// handle folds deliveries. If the code of one ends the goroutine, or never ends, that delivery fails and the others are
// folded without it. Nothing is written while the user's code runs.
func (f *folder) handle(ctx context.Context, key string, ds []*Delivery, commit Commit) []Outcome {
	var outs []Outcome
	r := start(func(r *run) { outs = f.apply(ctx, r, key, ds, commit) })
	at, hung := r.watch(ctx, f.timeout+giveUpAfter)
	var err error
	switch called, ok := r.inCall(); {
	case hung:
		err = hangs(r, f.timeout)
	case r.returned:
		return outs
	case ok:
		at, err = called, r.fault
	case len(ds) == 1:
		return []Outcome{{Err: r.fault}}
	default: // a method of the value or of an event failed: fold each by itself to find the delivery
		for i := range ds {
			outs = append(outs, f.handle(ctx, key, ds[i:i+1], commit.Of(i))...)
		}
		return outs
	}
	if len(ds) > 1 {
		others := allBut(at, len(ds))
		rest := make([]*Delivery, len(others))
		for i, other := range others {
			rest[i] = ds[other]
		}
		outs = f.handle(ctx, key, rest, commit.Of(others...))
	}
	return slices.Insert(outs, at, Outcome{Err: err})
}

// allBut returns the numbers below n without i.
func allBut(i, n int) []int {
	all := make([]int, 0, n-1)
	for j := range n {
		if j != i {
			all = append(all, j)
		}
	}
	return all
}

func newFolder[V any](c *values.Collection[V], timeout time.Duration) *folder {
	return &folder{collection: c, timeout: timeout, apply: func(ctx context.Context, r *run, key string, ds []*Delivery, commit Commit) []Outcome {
		changes := make([]values.Change[V], len(ds))
		for i, d := range ds {
			fold := d.Handler.fold.(func(V, *Delivery) (V, []channel.Message, error))
			changes[i] = values.Change[V]{Envelope: d.Envelope, Fold: func(v V) (next V, events []channel.Message, err error) {
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
				err = r.user(ctx, i, d)
				return next, events, err
			}}
		}
		return c.Apply(ctx, key, changes, commit)
	}}
}
