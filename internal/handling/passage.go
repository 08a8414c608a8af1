package handling

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/tracing"
)

// passage is a delivery's way through its middleware to a fold and back. The middleware of all deliveries that are
// folded together runs at the same time, each on a goroutine of its own. The fold waits until each delivery has come to
// the innermost Next or has ended, and they wait there for the fold:
//
//	middleware of 1 ── Next ┐                      ┌─ returns result 1 ── middleware of 1 ─▶ verdict of 1
//	middleware of 2 ── Next ┼─▶ one unit of work ──┼─ returns result 2 ── middleware of 2 ─▶ verdict of 2
//	middleware of 3 ── Next ┘                      └─ returns result 3 ── middleware of 3 ─▶ verdict of 3
//
// A middleware may have to wait for another's end, because both take the same lock. So once a delivery has come, the
// fold waits for the others no longer than lull. It takes those that have come, and the next fold takes the others.
//
// Whatever the unit of work repeats, the middleware runs once. The unit of work doesn't end the deliveries: their
// verdicts come after it.
type passage struct {
	d      *Delivery
	r      *usercode.Run           // runs the middleware
	cancel context.CancelCauseFunc // of the middleware's context

	once    sync.Once          // closes came
	came    chan struct{}      // closed when the innermost Next is called for the first time
	arrived chan<- struct{}    // of capacity 1, for all that are handled together: another one has come
	folded  chan struct{}      // closed when err is set
	early   bool               // the middleware ended before the fold
	err     error              // how the fold ended
	own     error              // what the outermost middleware returned; read it after r has ended
	hang    *verdict.HangError // the middleware was given up
}

// lull is how long the deliveries that have come to the fold wait for the others.
const lull = 50 * time.Millisecond

// enter starts the middleware of a delivery.
func enter(ctx context.Context, d *Delivery, arrived chan<- struct{}) *passage {
	p := &passage{d: d, came: make(chan struct{}), arrived: arrived, folded: make(chan struct{})}
	d.passage = p
	own := right.Within(d.handling(tracing.Under(ctx, d.span)))
	p.cancel = func(why error) { own.End(why) }
	p.r = usercode.Start(func(r *usercode.Run) {
		p.own = r.Call(0, func() error { return d.Handler.run(own, d) })
	})
	return p
}

// inside is the innermost Next. It may be called often, and from several goroutines.
func (p *passage) inside() error {
	p.once.Do(func() {
		close(p.came)
		select {
		case p.arrived <- struct{}{}:
		default:
		}
	})
	<-p.folded
	return p.err
}

// hasCome reports that the innermost Next was called.
func (p *passage) hasCome() bool {
	select {
	case <-p.came:
		return true
	default:
		return false
	}
}

// ready reports that the middleware has ended, or has come to the fold where that suffices.
func (p *passage) ready(come bool) bool {
	select {
	case <-p.r.Ended():
		return true
	default:
		return come && p.hasCome()
	}
}

// pass folds deliveries within their middleware.
func (f *folder) pass(ctx context.Context, key string, ds []*Delivery) []Outcome {
	all, arrived := make([]*passage, len(ds)), make(chan struct{}, 1)
	for i, d := range ds {
		all[i] = enter(ctx, d, arrived)
	}
	var folded []*passage
	before := f.newPatience(ctx)
	for waiting := all; len(waiting) > 0; {
		before.await(waiting, arrived)
		var come, others []*passage
		for _, p := range waiting {
			if p.hang != nil || p.ready(true) {
				come = append(come, p)
			} else {
				others = append(others, p)
			}
		}
		folded = append(folded, f.foldThose(ctx, key, come)...)
		waiting = others
	}
	before.t.Stop()
	after := f.newPatience(ctx)
	after.await(folded, nil)
	after.t.Stop()
	outs := make([]Outcome, len(ds))
	for i, p := range all {
		outs[i].Err = p.verdict()
		p.cancel(nil)
	}
	return outs
}

// foldThose folds deliveries that have come, and lets their middleware go on. It returns those that it folded: a
// middleware that failed before has decided already.
func (f *folder) foldThose(ctx context.Context, key string, ps []*passage) (folding []*passage) {
	var members []*Delivery
	for _, p := range ps {
		p.early = p.ready(false)
		switch {
		case p.hang != nil:
			p.err = p.hang
		case p.early && p.r.Fault() != nil:
			p.err = p.r.Fault()
		case p.early && p.own != nil:
			p.err = p.own
		default:
			p.d.skipped = p.early && !p.hasCome()
			folding, members = append(folding, p), append(members, p.d)
		}
	}
	if len(members) > 0 {
		for i, o := range f.fold(ctx, key, members, nil) {
			folding[i].err = o.Err
		}
	}
	for _, p := range ps {
		close(p.folded)
	}
	return folding
}

// patience is how long the middleware of deliveries that are handled together is waited for.
type patience struct {
	f          *folder
	done       <-chan struct{} // of the handling
	t          *time.Timer
	late, over bool
	dump       []byte // of all goroutines, once it is over
}

func (f *folder) newPatience(ctx context.Context) *patience {
	return &patience{f: f, done: ctx.Done(), t: time.NewTimer(f.timeout)}
}

// await waits until each passage is ready: has come to the fold, or with a nil arrived has ended. It returns lull after
// one has come, too. Where that takes longer than a handler may, the contexts of those that are not ready end, and they
// are given up verdict.GiveUpAfter later.
func (w *patience) await(ps []*passage, arrived <-chan struct{}) {
	var pause <-chan time.Time
	come := arrived != nil
	for i, p := range ps {
		came := p.came
		if !come {
			came = nil
		}
		for !w.over && !p.ready(come) {
			select {
			case <-came:
			case <-p.r.Ended():
			case <-arrived:
				if pause == nil {
					pause = time.After(lull)
				}
			case <-pause:
				return
			case <-w.done:
				w.done = nil
				w.endSoon(nil, come)
			case <-w.t.C:
				w.over = w.late
				w.endSoon(ps[i:], come)
			}
		}
		if !p.ready(come) {
			if w.dump == nil {
				w.dump = usercode.AllStacks()
			}
			p.hang = p.d.hangs(p.r, w.f.timeout, w.dump)
		}
	}
}

// endSoon ends the contexts of the passages that are not ready, and has all be given up verdict.GiveUpAfter later.
func (w *patience) endSoon(ps []*passage, come bool) {
	if w.late {
		return
	}
	w.late = true
	w.t.Reset(verdict.GiveUpAfter)
	for _, p := range ps {
		if !p.ready(come) {
			p.cancel(w.f.late)
		}
	}
}

// verdict returns the error that decides about the delivery: that of the outermost middleware. A hang prevails, because
// its goroutine must be counted. The fold decides where a middleware returned nil before it.
func (p *passage) verdict() error {
	hang, hung := p.err.(*verdict.HangError)
	switch {
	case p.hang != nil && hung && hang != p.hang:
		both := *hang
		both.Unsure = p.hang.Unsure
		both.Ended = bothEnded(hang.Ended, p.hang.Ended)
		return &both
	case p.hang != nil:
		return p.hang
	case hung, p.early:
		return p.err
	case p.r.Fault() != nil:
		return p.r.Fault()
	}
	return p.own
}

func bothEnded(a, b <-chan struct{}) <-chan struct{} {
	both := make(chan struct{})
	go func() {
		<-a
		<-b
		close(both)
	}()
	return both
}
