package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// mostDoubts is how many failed writes may be unresolved until the spool takes nothing: each needs memory, and a
// deletion.
const mostDoubts = 1000

// These errors say why there is no room for an entry. They match storage.ErrUnavailable.
var (
	errFull   = fmt.Errorf("%w: the spool is full", storage.ErrUnavailable)
	errOld    = fmt.Errorf("%w: the spool takes nothing more, because its oldest message has waited too long", storage.ErrUnavailable)
	errDoubts = fmt.Errorf("%w: too many writes of the file have an unknown outcome", storage.ErrUnavailable)
)

// These errors of a read say nothing about the store.
var (
	errNothing = errors.New("nothing is left to send") // the entry was discarded, or is damaged
	errFile    = errors.New("the file of the spool can't be read")
)

// An index knows what is in the file. The index writes, reads and deletes the entries, so that the room that is taken
// and the order of the entries that wait agree with the file.
type index struct {
	file     *file
	maxBytes int64
	maxAge   time.Duration
	doubtful bell         // something is in doubt
	waits    atomic.Int64 // messages that wait; changes under mu
	sent     []*entry     // that the store has, and whose deletion has failed; Run alone uses it

	mu    sync.Mutex
	next  uint64   // sequence of the next entry
	bytes int64    // of all entries, with those that are being written
	full  bool     // the last entry had no room, and none has gone since
	order order    // of the entries that wait
	aside asides   // that the store has refused
	doubt []*entry // that may be in the file, although they must not be
}

// newIndex returns the index of what an earlier run has left in a file.
func newIndex(ctx context.Context, f *file, maxBytes int64, maxAge time.Duration) (*index, error) {
	x := &index{file: f, maxBytes: maxBytes, maxAge: maxAge, doubtful: newBell(), order: order{}}
	for e, err := range f.entries(ctx) {
		if err != nil {
			return nil, err
		}
		e.counted = true
		x.next, x.bytes = e.seq+1, x.bytes+e.size
		x.lineUp(e)
	}
	return x, nil
}

// lineUp lines up an entry that is in the file.
func (x *index) lineUp(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.order.add(e)
	x.waits.Add(e.messages)
}

// reserve takes a sequence and room for an entry.
func (x *index) reserve(e *entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if oldest := x.order.head(nil, nil); oldest != nil && e.at.Sub(oldest.at) > x.maxAge {
		return errOld
	}
	if len(x.doubt) >= mostDoubts {
		return errDoubts
	}
	if x.full = x.bytes+e.size > x.maxBytes; x.full {
		return errFull
	}
	x.bytes += e.size
	e.counted = true
	e.seq = x.next
	x.next++
	return nil
}

// write writes an entry for which reserve has taken room. On nil the entry is durable, and waits.
func (x *index) write(ctx context.Context, e *entry, body []byte) error {
	if err := x.file.write(ctx, e, body); err != nil {
		x.disown(e, err)
		return err
	}
	x.lineUp(e)
	return nil
}

// disown notes that an entry, whose write has failed, must not be in the file. The write may have had its effect all
// the same, so the room of the entry stays taken until release.
func (x *index) disown(e *entry, why error) {
	if errors.Is(why, storage.ErrExists) { // there is another entry under its key
		x.release(e)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doubt = append(x.doubt, e); len(x.doubt) == 1 {
		x.doubtful.ring()
	}
}

// inDoubt returns the entries of disown that weren't released.
func (x *index) inDoubt() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.doubt)
}

// resolve deletes from the file what must not be there. The file does writes and deletions one after the other. So when
// the deletion of an entry finds nothing, the write of the entry won't come later.
func (x *index) resolve(ctx context.Context) error {
	for all := x.inDoubt(); len(all) > 0; all = x.inDoubt() {
		if err := x.file.hold(); err != nil {
			return err // they are another program's now
		}
		if _, err := x.erase(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes entries from the file, and returns those that may still be there.
func (x *index) erase(ctx context.Context, all []*entry) (left []*entry, err error) {
	erased, left, err := x.file.erase(ctx, all)
	for _, e := range erased {
		x.release(e)
	}
	return left, err
}

// release gives back the room of an entry that isn't in the file, and forgets the entry. It reports false for an entry
// that was released before.
func (x *index) release(e *entry) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.takeOut(e)
	if !e.counted {
		return false
	}
	e.counted, x.full = false, false
	x.bytes -= e.size
	x.aside.drop(e)
	x.doubt = slices.DeleteFunc(x.doubt, func(d *entry) bool { return d == e })
	return true
}

// takeOut takes an entry out of the order, if it waits. x.mu is held.
func (x *index) takeOut(e *entry) {
	if x.order.take(e) {
		x.waits.Add(-e.messages)
	}
}

// read returns the envelopes of an entry. With errNothing the entry is no longer in the file and is forgotten, or the
// entry is damaged and is set aside. With errFile the file can't be read.
func (x *index) read(ctx context.Context, e *entry) ([]wire.Envelope, error) {
	limited, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	envelopes, err := x.file.read(limited, e)
	switch {
	case err == nil:
		return envelopes, nil
	case errors.Is(err, errDamaged):
		x.setAside(ctx, e, err)
		return nil, errNothing
	case errors.Is(err, storage.ErrNotFound):
		if x.release(e) {
			x.file.remarks.tellDiscarded(ctx, e)
		}
		return nil, errNothing
	}
	return nil, fmt.Errorf("%w: %w", errFile, err)
}

// remove deletes entries that the store has, and entries whose deletion has failed before. After a crash before the
// deletion, an entry is sent again.
func (x *index) remove(ctx context.Context, sent []*entry) {
	restored := x.take(sent)
	x.sent, _ = x.erase(context.WithoutCancel(ctx), append(x.sent, sent...))
	for _, e := range restored {
		x.file.remarks.noteRefusal(ctx, e, nil)
	}
}

// take takes entries out of those that wait or were set aside. It returns the entries that were set aside.
func (x *index) take(entries []*entry) (restored []*entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range entries {
		x.takeOut(e)
		if x.aside.drop(e) {
			restored = append(restored, e)
		}
	}
	return restored
}

// setAside sets an entry aside, once.
func (x *index) setAside(ctx context.Context, e *entry, why error) {
	if !x.moveAside(e, why) {
		return
	}
	x.file.remarks.noteRefusal(ctx, e, why)
	x.file.log.ErrorContext(ctx, "messages of the spool can't be sent and are set aside: they stay in the file", "messages", e.messages, "error", why)
}

// moveAside reports false if an entry was aside already.
func (x *index) moveAside(e *entry, why error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.takeOut(e) // under one lock: a message that isn't sent is always counted
	return x.aside.add(e, why, time.Now())
}

// dueAside returns the entries that were set aside and are to be tried again.
func (x *index) dueAside() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.aside.due(time.Now())
}

// batch returns entries of one lane, the oldest first; see order.head.
func (x *index) batch(but map[string]bool, numbers map[string]int) []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order.batch(but, numbers)
}

// behind returns an entry that waits not far behind the first one of its lane, or nil.
func (x *index) behind(first *entry) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order.behind(first)
}

// waiting leaves out entries that don't wait any more.
func (x *index) waiting(entries []*entry) (left []*entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range entries {
		if e.waits {
			left = append(left, e)
		}
	}
	return left
}

// room returns why there is no room for a further entry, or nil. Everybody may read its text.
func (x *index) room() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full {
		return errors.New("it is full")
	}
	if oldest := x.order.head(nil, nil); oldest != nil && time.Since(oldest.at) > x.maxAge {
		return fmt.Errorf("its oldest message has waited for more than %v", x.maxAge)
	}
	return nil
}

// count returns what is in the file.
func (x *index) count() (st State) {
	x.mu.Lock()
	defer x.mu.Unlock()
	st.Waiting, st.Bytes = x.waits.Load(), x.bytes
	if oldest := x.order.head(nil, nil); oldest != nil {
		st.Oldest = oldest.at
	}
	for _, a := range x.aside {
		st.Refused += a.entry.messages
		st.Reason = a.why.Error()
	}
	return st
}
