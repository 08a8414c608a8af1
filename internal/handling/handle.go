package handling

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/right"
)

// Handle runs a group of deliveries, or one delivery that is alone, and returns the outcome of each. A delivery is
// handled once at a time. Deliveries that take a turn are handled by a [Turn] instead.
//
//   - A group's deliveries that succeed are ended by commit, in the unit of work that they are folded in. Without a
//     commit, with middleware, and after a reaction they are StillThere.
//   - A reaction that replies is ended by commit, in the unit of work that sends its messages, if there are any.
//   - A failure of the user's code is an error of the delivery it was called for: a [verdict.PanicError] for a panic
//     and for runtime.Goexit, a [verdict.HangError] for a call that doesn't end. After a hang in a fold the others of
//     the group have a [verdict.LaterError].
//   - The returned errors run none of the user's code.
func Handle(ctx context.Context, g Group, ds []*Delivery, commit Commit) []Outcome {
	if g.folder != nil {
		outs := g.fold(ctx, ds, commit)
		settledAll(outs)
		return outs
	}
	outs := make([]Outcome, len(ds))
	for i, d := range ds {
		outs[i] = d.handle(ctx, commit.Of(i))
	}
	return outs
}

// fold folds deliveries, each within its middleware if there is any.
func (g Group) fold(ctx context.Context, ds []*Delivery, commit Commit) []Outcome {
	if g.folder.wrapped {
		return g.folder.pass(ctx, g.key, ds)
	}
	return g.folder.fold(ctx, g.key, ds, commit)
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
	ctx, span := h.channels.Tracer().Call(ctx, d.span, h.name)
	err := d.react(ctx)
	endSpan(span, err)
	return err
}

func (d *Delivery) react(ctx context.Context) error {
	h := d.Handler
	var err error
	r := usercode.Start(func(r *usercode.Run) {
		err = r.Call(0, func() error { return h.run(ctx, d) })
	})
	switch _, hung := r.Watch(ctx, usercode.UntilDone); {
	case hung:
		return d.hangs(r, h.timeout, usercode.AllStacks())
	case r.Fault() != nil && d.doubts.Load() > 0:
		return verdict.Poison(verdict.ReasonOutcomeUnknown, r.Fault())
	case r.Fault() != nil:
		return r.Fault()
	}
	return err
}

// settledAll is [verdict.Settled] for errors of the framework, which may wrap errors of the user's code.
func settledAll(outs []Outcome) {
	var open []*Outcome
	for i := range outs {
		if !verdict.IsSettled(outs[i].Err) {
			open = append(open, &outs[i])
		}
	}
	usercode.Guard("a method of an error", len(open), func(i int) error { return verdict.Settled(open[i].Err) },
		func(i int, err error) { open[i].Err = err }, func(i int, err error) { open[i].Err = err })
}
