package keylock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
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
	ctx   *agree.Hold // ends when the turn isn't proved any more

	// These fields belong to whoever has entered ctx.
	doc    document
	etag   storage.ETag
	closed bool
}

// hold begins to hold a turn whose write started at start. It returns nil if that proves nothing any more.
func hold(ts *Turns, key string, doc document, etag storage.ETag, start time.Time) *Turn {
	t := &Turn{ts: ts, key: key, fence: doc.Fence, state: doc.State, doc: doc, etag: etag}
	t.ctx = agree.NewHold(context.Background(), ts.cfg.TTL, start, t.renew, lose)
	if !t.Sure() {
		t.ctx.End(nil)
		return nil
	}
	return t
}

// Context ends with the turn: with the cause [ErrLost], or when it is ended. Each look at it compares the clock with
// the end of the proof, as in package coord/lease.
func (t *Turn) Context() context.Context { return t.ctx }

// Fence is larger than those of all earlier turns of the key.
func (t *Turn) Fence() int64 { return t.fence }

// State is what the turn began with.
func (t *Turn) State() State { return t.state }

// Sure reports that no other process can have the turn now.
func (t *Turn) Sure() bool { return t.ctx.Proved() }

// lose ends the context of a turn that is lost, or that no renewal has proved in time.
func lose(r *right.Right, why error) {
	switch late := fmt.Errorf("%w: not renewed in time", ErrLost); {
	case why == nil:
		why = late
	case !errors.Is(why, ErrLost):
		why = fmt.Errorf("%w: %w", late, why)
	}
	r.End(why)
}

// renew writes the turn again.
func (t *Turn) renew(ctx context.Context) (lost bool, err error) {
	t.doc.Beat++
	err = t.write(ctx, t.doc)
	return errors.Is(err, ErrLost), err
}

// Save writes a state and keeps the turn, so that the state outlives this process. It ignores the end of ctx, and takes
// at most a third of the TTL. After an error the state may be written or not; a renewal may undo it.
func (t *Turn) Save(ctx context.Context, s State) error {
	ctx, leave, err := t.ctx.Enter(ctx)
	if err != nil {
		return t.ts.fail("save", t.key, err)
	}
	defer leave()
	if t.ctx.Err() != nil {
		return t.ts.fail("save", t.key, ErrLost)
	}
	err = t.ctx.Write(ctx, func(ctx context.Context) (lost bool, err error) {
		err = t.write(ctx, t.with(s))
		return errors.Is(err, ErrLost), err
	})
	if err != nil {
		return t.ts.fail("save", t.key, err)
	}
	return nil
}

// write replaces the row. If another write came first that kept this turn, because an own answer was lost or an
// operator has written, it writes again. The caller has entered ctx of the turn.
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
	ctx, leave, err := t.ctx.Enter(ctx)
	if err != nil {
		return t.ts.fail("end", t.key, err)
	}
	defer leave()
	if t.closed {
		return nil
	}
	t.closed = true
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
