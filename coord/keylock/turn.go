package keylock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Turn is held until End, or until it is lost. Its methods may be called concurrently.
type Turn struct {
	ts    *Turns
	key   string
	fence int64
	state State
	ctx   *right.Right // ends when the turn isn't proved any more

	calls  callLock // guards the fields below; held during a renewal
	doc    document
	etag   storage.ETag
	next   *time.Timer // renews
	closed bool

	trouble atomic.Pointer[error] // of the last renewal; nil: none
}

// callLock is a mutex that may be held during a request. It is a channel so that waiting for it counts as waiting for a
// request: in virtual time, waiting for a sync.Mutex stops the clock.
type callLock chan struct{}

func (l callLock) lock()   { l <- struct{}{} }
func (l callLock) unlock() { <-l }

// hold begins to hold a turn whose write started at start. It returns nil if that proves nothing any more.
func hold(ts *Turns, key string, doc document, etag storage.ETag, start time.Time) *Turn {
	t := &Turn{ts: ts, key: key, fence: doc.Fence, state: doc.State, calls: make(callLock, 1), doc: doc, etag: etag}
	t.calls.lock()
	defer t.calls.unlock()
	t.ctx = right.New(context.Background(), ts.provedFrom(start), t.late)
	if !t.Sure() {
		return nil
	}
	t.next = time.AfterFunc(ts.cfg.TTL/3, t.renew)
	return t
}

// provedFrom returns until when a write that started at start proves a turn.
func (ts *Turns) provedFrom(start time.Time) time.Time { return start.Add(ts.cfg.TTL * 5 / 6) }

// Context ends with the turn: with the cause [ErrLost], or when it is ended. Each look at it compares the clock with
// the end of the proof, as in package coord/lease.
func (t *Turn) Context() context.Context { return t.ctx }

// Fence is larger than those of all earlier turns of the key.
func (t *Turn) Fence() int64 { return t.fence }

// State is what the turn began with.
func (t *Turn) State() State { return t.state }

// Sure reports that no other process can have the turn now.
func (t *Turn) Sure() bool { return t.ctx.Proved() }

// late ends the context of a turn that is no longer proved.
func (t *Turn) late(r *right.Right) {
	err := fmt.Errorf("%w: not renewed in time", ErrLost)
	if trouble := t.trouble.Load(); trouble != nil {
		err = fmt.Errorf("%w: %w", err, *trouble)
	}
	r.End(err)
}

// renew writes the turn again. It ends when the turn does.
func (t *Turn) renew() {
	t.calls.lock()
	defer t.calls.unlock()
	if t.closed || t.ctx.Err() != nil {
		return
	}
	t.doc.Beat++
	_ = t.prove(t.ctx, t.doc)
}

// prove writes the turn again, and proves it by that. The caller holds the lock.
func (t *Turn) prove(ctx context.Context, doc document) error {
	start := time.Now()
	err := t.write(ctx, doc)
	var trouble *error
	if err != nil {
		trouble = &err
	}
	t.trouble.Store(trouble)
	switch {
	case t.ctx.Err() != nil:
	case err == nil:
		t.ctx.Prove(t.ts.provedFrom(start))
		t.next.Reset(t.ts.cfg.TTL / 3)
	case errors.Is(err, ErrLost):
		t.ctx.End(err)
	default:
		t.next.Reset(t.ts.cfg.TTL / 12)
	}
	return err
}

// enter waits until no other call of the turn is under way, and returns a context for a call, which leave ends.
func (t *Turn) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), t.ts.cfg.TTL/3)
	select {
	case t.calls <- struct{}{}:
		return ctx, func() { t.calls.unlock(); cancel() }, nil
	case <-ctx.Done(): // a renewal hangs
		defer cancel()
		return nil, nil, context.Cause(ctx)
	}
}

// Save writes a state and keeps the turn, so that the state outlives this process. It ignores the end of ctx, and takes
// at most a third of the TTL. After an error the state may be written or not; a renewal may undo it.
func (t *Turn) Save(ctx context.Context, s State) error {
	ctx, leave, err := t.enter(ctx)
	if err != nil {
		return t.ts.fail("save", t.key, err)
	}
	defer leave()
	if t.closed || t.ctx.Err() != nil {
		return t.ts.fail("save", t.key, ErrLost)
	}
	if err := t.prove(ctx, t.with(s)); err != nil {
		return t.ts.fail("save", t.key, err)
	}
	return nil
}

// write replaces the row. If another write came first that kept this turn, because an own answer was lost or an
// operator has written, it writes again. The caller holds the lock.
func (t *Turn) write(ctx context.Context, doc document) error {
	for {
		etag, err := t.ts.put(ctx, t.key, doc, t.etag)
		if err == nil {
			t.doc, t.etag = doc, etag
		}
		if !storage.LostRace(err) {
			return err
		}
		there, etag, err := t.ts.get(ctx, t.key)
		switch {
		case errors.Is(err, storage.ErrNotFound), storecall.Permanent(err):
			return fmt.Errorf("%w: its row is gone or replaced", ErrLost)
		case err != nil:
			return err
		case there.ID == t.doc.ID:
			if t.etag = etag; there.State.Released.after(t.doc.State.Released) {
				t.doc.State.Released, doc.State.Released = there.State.Released, there.State.Released
				doc.State.release() // an operator has, and has seen the state from before
			}
		case doc.ID == "" && there.ID == "" && there.Fence == t.fence && there.Beat == doc.Beat:
			t.doc, t.etag = there, etag
			return nil // ended, and the answer was lost
		default:
			return fmt.Errorf("%w: another process has it", ErrLost)
		}
	}
}

// with returns the turn's next row with a state. An operator who released the key in this turn has seen an earlier one.
func (t *Turn) with(s State) document {
	if by := t.doc.State.Released; by.after(s.Released) {
		s.release()
		s.Released = by
	}
	next := t.doc
	next.State = s
	next.Beat++
	return next
}

// End ends the turn, and leaves a state for the next one. Its context ends first. End ignores the end of ctx, and takes
// at most a third of the TTL. It returns [ErrLost] if the row is no longer this turn's. Then the state isn't
// written, unless the answer to an earlier write of this call was lost, and others replaced the row after that. After
// another error the turn looks held: this process can take it, and others take it over. A second call does nothing.
func (t *Turn) End(ctx context.Context, s State) error {
	t.ctx.End(nil)
	ctx, leave, err := t.enter(ctx)
	if err != nil {
		return t.ts.fail("end", t.key, err)
	}
	defer leave()
	if t.closed {
		return nil
	}
	t.closed = true
	t.next.Stop()
	id := t.doc.ID
	over := t.with(s)
	over.ID = ""
	for tries := 1; ; tries++ {
		if err = t.write(ctx, over); !isTrouble(err) || errors.Is(err, ErrLost) || tries == 3 || ctx.Err() != nil {
			break
		}
		_ = storecall.Sleep(ctx, time.Duration(tries)*50*time.Millisecond)
	}
	if errors.Is(err, ErrLost) {
		return t.ts.fail("end", t.key, err)
	}
	before, _ := t.ts.seen.get(t.key)
	now := before.saw(t.doc, t.etag, nil)
	if err != nil {
		t.ts.seen.put(t.key, now.doubt(id))
		return t.ts.fail("end", t.key, err)
	}
	now.mine = nil
	t.ts.seen.put(t.key, now)
	t.ts.sweep.after(ctx, t.ts, t.key)
	return nil
}
