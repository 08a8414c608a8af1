package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Delivery is one received message on its way through its handler.
type Delivery struct {
	Envelope *channel.Envelope // has its data
	Message  any               // decoded, upgraded
	Queue    string
	Handler  *Handler
	Span     trace.Span // of this delivery, by its worker; nil: no spans are made
	Number   int        // how often the message was delivered when it was due, with this time; 0: nobody has counted
	Came     int        // how often the store has delivered it, with this time; of one that takes a turn
	Arrived  time.Time  // when the store took the message, or when it was due; of one that takes a turn
	Failed   error      // why its handler can't run: it takes its turn only to fail; see Failing

	key     string   // of the document that the message is for, where its handler folds; or of its turn
	ignored bool     // no document is for it: it is handled alone, and its handler does nothing
	answer  answer   // of a reaction that replies
	passage *passage // through the middleware, where its handler folds
	skipped bool     // a middleware has ended it without its fold
	folded  bool     // its fold has run before

	doubts atomic.Int32 // calls of its handler whose effect may have happened if it never returns
}

// Resolve finds the handler of a message that came from a queue, decodes the message, and finds the document it is for.
// The envelope must have its data. Errors are those of wire.Codec's Decode, and these:
//
//   - A kind that is known, but not to this queue, is an unknown kind.
//   - A key that no document can have is poison.
//   - A message that its own Check refuses is poison.
//   - A panic in an upgrade, in a type's own decoding or in a key function is an error of the message.
//
// That code may also end the goroutine: see [Guard]. With the error of a Check, d may be there for [Failing].
func (r *Registry) Resolve(queue string, e *channel.Envelope) (d *Delivery, err error) {
	err = contained(func() (err error) {
		d, err = r.resolve(queue, e)
		return settled(err)
	})
	return d, err
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
	if err := wire.CheckMessage(m); err != nil {
		return d.keyOfRefused(), Poison(ReasonRefused, err)
	}
	if h.key != nil {
		concerned := false
		if d.key, concerned = h.key(e, m); !concerned {
			d.ignored = true
			return d, nil
		}
		if err := storage.CheckKey(d.key); err != nil {
			return nil, Poison(ReasonBadKey, fmt.Errorf("%s: %w", h.name, err))
		}
	}
	return d, nil
}

// Group names the document that a delivery is for, or the turn that it takes. Deliveries of one group are handled
// together: in one fold, or one after the other.
type Group struct {
	folder *folder
	turns  *turns
	key    string
}

// Group returns the delivery's group; ok is false for a delivery that is handled alone.
func (d *Delivery) Group() (g Group, ok bool) {
	if d.ignored {
		return Group{}, false
	}
	h := d.Handler
	return Group{folder: h.folder, turns: h.turns, key: d.key}, h.folder != nil || h.turns != nil
}

// An Outcome is what became of a delivery: the error of its handling, and whether the unit of work has ended it.
//
//	Err   error
//	Ended Ended
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

// Handle runs a group of deliveries, or one delivery that is alone, and returns the outcome of each. A delivery is
// handled once at a time. Deliveries that take a turn are handled by a [Turn] instead.
//
//   - A group's deliveries that succeed are ended by commit, in the unit of work that they are folded in. Without a
//     commit, with middleware, and after a reaction they are StillThere.
//   - A reaction that replies is ended by commit, in the unit of work that sends its messages, if there are any.
//   - A failure of the user's code is an error of the delivery it was called for: a [PanicError] for a panic and for
//     runtime.Goexit, a [HangError] for a call that doesn't end. After a hang in a fold the others of the group have a
//     [LaterError].
//   - The returned errors run none of the user's code.
func Handle(ctx context.Context, g Group, ds []*Delivery, commit Commit) []Outcome {
	if g.folder != nil {
		outs := g.folder.handle(ctx, g.key, ds, commit)
		settledAll(outs)
		return outs
	}
	outs := make([]Outcome, len(ds))
	for i, d := range ds {
		outs[i] = d.handle(ctx, commit.Of(i))
	}
	return outs
}

// answerTime bounds the sending of an answer. That doesn't end with the delivery's context: what the reaction has done
// stays done if the message is lost meanwhile, or the worker stops.
const answerTime = 10 * time.Second

// handle runs a reaction, or the middleware of a message that its handler ignores, and sends what it replies.
func (d *Delivery) handle(ctx context.Context, commit Commit) Outcome {
	if d.ignored && !d.Handler.wrapped {
		return Outcome{}
	}
	if err := d.call(ctx); err != nil {
		return Outcome{Err: err}
	}
	if messages := d.answer.take(); len(messages) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		return d.send(ctx, messages, commit)
	}
	return Outcome{}
}

func (d *Delivery) call(ctx context.Context) error {
	h := d.Handler
	if h.wrapped { // the middleware may send, too
		ctx = d.handling(ctx)
	}
	ctx, cancel := right.WithTimeoutCause(ctx, h.timeout, h.late)
	defer cancel()
	ctx, span := h.channels.Tracer().Call(ctx, d.Span, h.name)
	err := d.react(ctx)
	endSpan(span, err)
	return err
}

func (d *Delivery) react(ctx context.Context) error {
	h := d.Handler
	var err error
	r := start(func(r *run) {
		err = r.user(0, func() error { return h.run(ctx, d) })
	})
	switch _, hung := r.watch(ctx, untilDone); {
	case hung:
		return d.hangs(r, h.timeout, allStacks())
	case !r.returned && d.doubts.Load() > 0:
		return Poison(ReasonOutcomeUnknown, r.fault)
	case !r.returned:
		return r.fault
	}
	return err
}

// hangs makes the error of a delivery's handler that was given up.
func (d *Delivery) hangs(r *run, limit time.Duration, dump []byte) *HangError {
	e := hangs(r, theHandler, limit, dump)
	e.Unsure = d.doubts.Load() > 0
	return e
}

// folder folds deliveries into the documents of one collection. Only newFolder knows its generic type.
type folder struct {
	collection any // the first collection of its name
	apply      func(ctx context.Context, r *run, key string, ds []*Delivery, commit Commit) []Outcome
	idempotent func(*channel.Envelope) bool // see values.Config
	timeout    time.Duration
	late       error // ends a middleware's context when timeout has passed
	wrapped    bool  // there is middleware
}

// handle folds deliveries, each within its middleware.
func (f *folder) handle(ctx context.Context, key string, ds []*Delivery, commit Commit) []Outcome {
	if f.wrapped {
		return f.pass(ctx, key, ds)
	}
	return f.fold(ctx, key, ds, commit)
}

// fold folds deliveries. If the code of one ends the goroutine, that delivery fails and the others are folded without
// it. If it never ends, the others are handed back: they might take as long. Nothing is written while the user's code
// runs. Deliveries that a unit of work has ended by then keep that outcome.
func (f *folder) fold(ctx context.Context, key string, ds []*Delivery, commit Commit) []Outcome {
	var outs []Outcome
	ended := make([]Ended, len(ds))
	r := start(func(r *run) { outs = f.apply(ctx, r, key, ds, noteEnded(commit, ended)) })
	at, hung := r.watch(ctx, f.timeout+giveUpAfter)
	if !hung && r.returned {
		return outs
	}
	outs = make([]Outcome, len(ds))
	var left []int // deliveries that are still to be folded
	for i := range outs {
		if outs[i].Ended = ended[i]; ended[i] == StillThere {
			left = append(left, i)
		}
	}
	if hung {
		for _, i := range left {
			outs[i].Err = errBehindHang()
		}
		outs[at].Err = hangs(r, theHandler, f.timeout, allStacks())
		return outs
	}
	at, inCall := r.inCall()
	switch {
	case inCall:
		outs[at].Err = r.fault
		left = slices.DeleteFunc(left, func(i int) bool { return i == at })
		f.foldSome(ctx, key, ds, commit, outs, left)
	case len(left) == 1:
		outs[left[0]].Err = r.fault
	default: // a method of the value or of an event failed: fold each by itself to find the delivery
		for i := range left {
			f.foldSome(ctx, key, ds, commit, outs, left[i:i+1])
		}
	}
	return outs
}

// foldSome folds the deliveries with these indices, and sets their outcomes.
func (f *folder) foldSome(ctx context.Context, key string, ds []*Delivery, commit Commit, outs []Outcome, some []int) {
	if len(some) == 0 {
		return
	}
	part := make([]*Delivery, len(some))
	for i, at := range some {
		part[i] = ds[at]
	}
	for i, out := range f.fold(ctx, key, part, commit.Of(some...)) {
		outs[some[i]] = out
	}
}

// noteEnded returns a Commit that also notes which deliveries it has ended.
func noteEnded(commit Commit, noted []Ended) Commit {
	if commit == nil {
		return nil
	}
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []Ended, error) {
		etag, ended, err := commit(ctx, work, ends)
		if err == nil {
			for i, at := range ends {
				noted[at] = ended[i]
			}
		}
		return etag, ended, err
	}
}

func newFolder[V any](c *values.Collection[V], cfg Config) *folder {
	apply := func(ctx context.Context, r *run, key string, ds []*Delivery, commit Commit) []Outcome {
		changes := make([]values.Change[V], len(ds))
		for i, d := range ds {
			changes[i] = values.Change[V]{Envelope: d.Envelope, Group: d.Handler.group, Fold: func(v V) (V, []channel.Message, error) { return foldOne(r, i, d, v) }}
			if d.Span != nil {
				changes[i] = traced(d, changes[i])
			}
		}
		return c.Apply(batched(ctx, ds), key, changes, commit)
	}
	return &folder{
		collection: c, apply: apply, idempotent: c.Idempotent,
		timeout: cfg.Timeout, late: errLate(cfg.Timeout), wrapped: len(cfg.Middleware) > 0,
	}
}

// foldOne folds delivery i of a unit of work into its value.
func foldOne[V any](r *run, i int, d *Delivery, v V) (next V, events []channel.Message, err error) {
	if d.skipped {
		return v, nil, nil
	}
	fold := d.Handler.fold.(func(V, *channel.Envelope, any) (V, []channel.Message, error))
	again := d.folded
	d.folded = true
	err = r.user(i, func() (err error) {
		m := d.Message
		if again { // the value may share memory with the message, and later folds may have changed it
			if m, err = d.Handler.decode(d.Envelope); err != nil {
				return err
			}
		}
		next, events, err = fold(v, d.Envelope, m)
		return err
	})
	return next, events, err
}
