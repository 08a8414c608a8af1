package handling

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// Fold registers a handler that folds the messages of a queue into a collection.
//
//   - key names the document. Where ok is false, the message is not for this handler: it is deleted without a fold.
//   - Two collections of one name are one, so that a worker doesn't race with itself. The two must be the same in
//     everything that values.Collection.SameAs compares.
func Fold[V any, M channel.Message](r *Registry, as As, name, queue string, c *values.Collection[V],
	key func(*channel.Envelope, M) (key string, ok bool), f func(V, *channel.Envelope, M) (V, []channel.Message, error)) {
	if err := c.Check(); err != nil {
		r.Faults.addf("%s: %w", name, err)
	}
	if key == nil || f == nil {
		r.Faults.addf("%s: the function for the key of %s is nil, or the one that folds it", name, kindAs[M](as))
	}
	r.WarnOfLoss(reflect.TypeFor[V]())
	h := register[M](r, as, name, queue)
	if h == nil {
		return
	}
	h.collection, h.value = c.Name(), reflect.TypeFor[V]()
	h.decode = r.Handlers.codec.Decode
	h.key = func(e *channel.Envelope, m any) (string, bool) { return key(e, m.(M)) }
	h.fold = func(v V, e *channel.Envelope, m any) (V, []channel.Message, error) { return f(v, e, m.(M)) }
	h.try = tryFold(c, as, f)
	h.folder = r.folders[c.Name()]
	if h.folder == nil {
		h.folder = newFolder(c, r.Timeout, h.wrapped)
		r.folders[c.Name()] = h.folder
	} else if err := c.SameAs(h.folder.collection); err != nil {
		r.Faults.addf("%s: %w: make it once and hand it to all that fold into it", name, err)
	}
	r.wrap(h, func(_ context.Context, d *Delivery) error {
		if d.ignored {
			return nil
		}
		return d.passage.inside()
	})
}

// folder folds deliveries into the documents of one collection. Only newFolder knows its generic type.
type folder struct {
	collection any // the first collection of its name
	apply      func(ctx context.Context, r *usercode.Run, key string, ds []*Delivery, commit Commit) []Outcome
	idempotent func(*channel.Envelope) bool // see values.Config
	timeout    time.Duration
	late       error // ends a middleware's context when timeout has passed
	wrapped    bool  // there is middleware
}

// fold folds deliveries. If the code of one ends the goroutine, that delivery fails and the others are folded without
// it. If it never ends, the others are handed back: they might take as long. Nothing is written while the user's code
// runs. Deliveries that a unit of work has ended by then keep that outcome.
func (f *folder) fold(ctx context.Context, key string, ds []*Delivery, commit Commit) []Outcome {
	var outs []Outcome
	ended := make([]Ended, len(ds))
	r := usercode.Start(func(r *usercode.Run) { outs = f.apply(ctx, r, key, ds, noteEnded(commit, ended)) })
	at, hung := r.Watch(ctx, f.timeout+verdict.GiveUpAfter)
	if !hung && r.Fault() == nil {
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
			outs[i].Err = usercode.ErrBehindHang()
		}
		outs[at].Err = r.Hang(theHandler, f.timeout, usercode.AllStacks())
		return outs
	}
	at, inCall := r.InCall()
	switch {
	case inCall:
		outs[at].Err = r.Fault()
		left = slices.DeleteFunc(left, func(i int) bool { return i == at })
		f.foldSome(ctx, key, ds, commit, outs, left)
	case len(left) == 1:
		outs[left[0]].Err = r.Fault()
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

func newFolder[V any](c *values.Collection[V], timeout time.Duration, wrapped bool) *folder {
	apply := func(ctx context.Context, r *usercode.Run, key string, ds []*Delivery, commit Commit) []Outcome {
		changes := make([]values.Change[V], len(ds))
		for i, d := range ds {
			changes[i] = values.Change[V]{Envelope: d.Envelope, Group: d.Handler.as.Group, Fold: func(v V) (V, []channel.Message, error) { return foldOne(r, i, d, v) }}
			if d.span != nil {
				changes[i] = traced(d, changes[i])
			}
		}
		return c.Apply(batched(ctx, ds), key, changes, commit)
	}
	return &folder{
		collection: c, apply: apply, idempotent: c.Idempotent,
		timeout: timeout, late: errLate(timeout), wrapped: wrapped,
	}
}

// foldOne folds delivery i of a unit of work into its value.
func foldOne[V any](r *usercode.Run, i int, d *Delivery, v V) (next V, events []channel.Message, err error) {
	if d.skipped {
		return v, nil, nil
	}
	fold := d.Handler.fold.(func(V, *channel.Envelope, any) (V, []channel.Message, error))
	again := d.folded
	d.folded = true
	err = r.Call(i, func() (err error) {
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
