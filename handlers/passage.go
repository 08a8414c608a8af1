package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/post"
)

// passage is a delivery's way through its middleware to a fold and back. The middleware of all deliveries that are
// folded together runs at the same time, each on a goroutine of its own. The fold waits until each delivery has come to
// the innermost Next or has ended, and they wait there for the fold:
//
//	middleware of 1 ── Next ┐                      ┌─ returns result 1 ── middleware of 1 ─▶ verdict of 1
//	middleware of 2 ── Next ┼─▶ one unit of work ──┼─ returns result 2 ── middleware of 2 ─▶ verdict of 2
//	middleware of 3 ── Next ┘                      └─ returns result 3 ── middleware of 3 ─▶ verdict of 3
//
// Whatever the unit of work repeats, the middleware runs once. The unit of work doesn't end the deliveries: their
// verdicts come after it.
type passage struct {
	d      *Delivery
	r      *run                    // runs the middleware
	cancel context.CancelCauseFunc // of the middleware's context

	once   sync.Once     // closes came
	came   chan struct{} // closed when the innermost Next is called for the first time
	folded chan struct{} // closed when err is set
	err    error         // how the fold ended
	own    error         // what the outermost middleware returned; read it after r.ended
	hang   *HangError    // the middleware was given up
}

// enter starts the middleware of a delivery.
func enter(ctx context.Context, d *Delivery) *passage {
	p := &passage{d: d, came: make(chan struct{}), folded: make(chan struct{})}
	d.passage = p
	ctx, p.cancel = context.WithCancelCause(post.WithHandling(ctx, d.Envelope, d.Queue))
	p.r = start(func(r *run) {
		p.own = r.user(0, func() error { return d.Handler.run(ctx, d) })
	})
	return p
}

// inside is the innermost Next. It may be called often, and from several goroutines.
func (p *passage) inside() error {
	p.once.Do(func() { close(p.came) })
	<-p.folded
	return p.err
}

// ready reports that the middleware has ended, or has come to the fold where that suffices.
func (p *passage) ready(come bool) bool {
	select {
	case <-p.r.ended:
		return true
	default:
	}
	select {
	case <-p.came:
		return come
	default:
		return false
	}
}

// pass folds deliveries within their middleware.
func (f *folder) pass(ctx context.Context, key string, ds []*Delivery) []Outcome {
	all := make([]*passage, len(ds))
	for i, d := range ds {
		all[i] = enter(ctx, d)
	}
	f.await(ctx, all, true)
	var folding []*passage
	var members []*Delivery
	for _, p := range all {
		ended := p.ready(false)
		switch {
		case p.hang != nil:
			p.err = p.hang
		case ended && !p.r.returned:
			p.err = p.r.fault
		case ended && p.own != nil:
			p.err = p.own
		default:
			p.d.skipped = ended
			folding, members = append(folding, p), append(members, p.d)
		}
	}
	if len(members) > 0 {
		for i, o := range f.fold(ctx, key, members, nil) {
			folding[i].err = o.Err
		}
	}
	for _, p := range all {
		close(p.folded)
	}
	f.await(ctx, folding, false)
	outs := make([]Outcome, len(ds))
	for i, p := range all {
		outs[i].Err = p.verdict()
		p.cancel(nil)
	}
	return outs
}

// await waits until each passage is ready. Where that takes longer than a handler may, the contexts of those that are
// not ready end, and they are given up giveUpAfter later.
func (f *folder) await(ctx context.Context, ps []*passage, come bool) {
	var dump []byte
	done, late, over := ctx.Done(), false, false
	t := time.NewTimer(f.timeout)
	defer t.Stop()
	for i, p := range ps {
		came := p.came
		if !come {
			came = nil
		}
		for !over && !p.ready(come) {
			select {
			case <-came:
			case <-p.r.ended:
			case <-done:
				done = nil
				if !late {
					late = true
					t.Reset(giveUpAfter)
				}
			case <-t.C:
				if late {
					over = true
					break
				}
				late = true
				t.Reset(giveUpAfter)
				for _, p := range ps[i:] {
					if !p.ready(come) {
						p.cancel(f.late)
					}
				}
			}
		}
		if !p.ready(come) {
			if dump == nil {
				dump = allStacks()
			}
			p.hang = hangs(p.r, theHandler, f.timeout, dump)
		}
	}
}

// verdict returns the error that decides about the delivery: that of the outermost middleware. A hang prevails, because
// its goroutine must be counted. The fold decides where a middleware returned nil without calling Next.
func (p *passage) verdict() error {
	hang, hung := p.err.(*HangError)
	switch {
	case p.hang != nil && hung && hang != p.hang:
		both := *hang
		both.Ended = bothEnded(hang.Ended, p.hang.Ended)
		return &both
	case p.hang != nil:
		return p.hang
	case hung, p.d.skipped:
		return p.err
	case !p.r.returned:
		return p.r.fault
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
