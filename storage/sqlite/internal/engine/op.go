package engine

import (
	"context"
	"sync"
)

// An Op is one caller's work for the writer. It is used once.
type Op struct {
	Ctx  context.Context
	Size int // bytes that it writes, about

	// Early: it runs before the other ops of its group.
	Early bool

	// Aside: other goroutines do what follows this op, so the writer gains nothing by waiting for its caller. A late op
	// is aside.
	Aside bool

	// Late: others may see its effect before the disk has it. The caller is answered when the disk has it, and no commit
	// waits for that.
	Late bool

	// Relaxed: losing the effect to a power failure breaks no promise. Nobody waits for the disk.
	Relaxed bool

	// Run does the work inside the transaction. An [Error] undoes the whole transaction. With any other error, Run must
	// have changed nothing.
	Run func() error

	err  error
	done chan error // of capacity 1

	mu      sync.Mutex // held while Run runs
	dropped bool       // the caller has left and may use its memory again: Run must not
}

// HoldCaller keeps the caller of an op from leaving until [Op.ReleaseCaller], so that its memory may be used. It
// reports false when the caller has left; then there is nothing to release. Other ops of the transaction may call it.
func (o *Op) HoldCaller() bool {
	o.mu.Lock()
	if o.dropped || o.Ctx.Err() != nil {
		o.mu.Unlock()
		return false
	}
	return true
}

// ReleaseCaller ends a HoldCaller.
func (o *Op) ReleaseCaller() { o.mu.Unlock() }

// leave has the op's caller give up.
func (o *Op) leave() {
	o.mu.Lock()
	o.dropped = true
	o.mu.Unlock()
}

// run runs the op, unless its caller has left. It returns only an error that ends the group.
func (o *Op) run() error {
	if !o.HoldCaller() {
		o.err = context.Cause(o.Ctx)
		return nil
	}
	defer o.ReleaseCaller()
	o.err = o.Run()
	if asError(o.err) != nil {
		return o.err
	}
	return nil
}

// isAside reports that the writer gains nothing by waiting for the op's caller.
func (o *Op) isAside() bool { return o.Aside || o.Late }

// answer gives the op's caller its error, or the error of its whole group.
func (o *Op) answer(group error) {
	if group != nil {
		o.err = group
	}
	o.done <- o.err
}

// allGone returns why no caller waits for the group any more, or nil while one does.
func allGone(group []*Op) func() error {
	return func() error {
		for _, o := range group {
			if o.Ctx.Err() == nil {
				return nil
			}
		}
		return context.Cause(group[0].Ctx)
	}
}
