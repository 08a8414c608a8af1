// Package once notes the effects of reactions in rows, so that no effect is repeated: it is what handlers.ReactOnce is
// made of, and its comment has the laws.
//
// # Files
//
//	once.go   Notes and Do: one message, from its note begun to its note done
//	doubt.go  what this process knows of effects whose notes could not be written, until they are
//	sweep.go  the keys of notes, and how old notes are deleted
package once

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	tableName = "once"

	// A note begun is held as a lease is, by agree.Hold. It is a row, not a lease's blob: the write that releases it
	// turns it into the note done, and rows are swept in batches.
	lease     = 30 * time.Second
	look      = lease / 3 // a waiting copy is delivered so often that all workers begin to watch soon
	renewTime = lease / 4 // bounds a renewal, and leaves time for another

	noteTime  = 5 * time.Second // bounds the note after f
	retention = 30 * 24 * time.Hour
)

// noteRow is the row that notes an effect as begun or done. It doesn't hold when a run was alive, so no two machines'
// clocks are compared.
type noteRow struct {
	Done    bool   `json:"done"`
	Holder  string `json:"holder,omitzero"` // of a note begun: the run that holds it
	Beat    int64  `json:"beat,omitzero"`   // of a note begun: each renewal adds one
	Content string `json:"content"`         // digest: tells whether a message with this ID is the same message
	Since   int64  `json:"since,omitzero"`  // of a keyed note: from when the message counts, in milliseconds

	Unknown bool   `json:"unknown,omitzero"` // a run has ended, and its effect may have happened
	Retried string `json:"retried,omitzero"` // of Unknown: the operator's decision by which that run began
}

// Notes are the notes of a subscriber group, as one process keeps them.
type Notes struct {
	table  *storage.Table
	group  string
	watch  watcher
	doubts *doubts
	sweep  *sweeper
}

// New returns the notes of a subscriber group.
func New(store *storage.Store, group string) *Notes {
	table := store.Table(tableName)
	return &Notes{table: table, group: group, watch: watcher{agree.NewMemory[struct{}]()}, doubts: newDoubts(), sweep: newSweeper(table, group)}
}

// Do runs f for the message that is handled under the context, and notes that before and after; handlers.ReactOnce has
// the laws.
func (ns *Notes) Do(ctx context.Context, f func(context.Context) error) error {
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return errors.New("handlers: a reaction of ReactOnce outside of a handler's context")
	}
	e := &h.Envelope
	born := e.Born()
	if born.IsZero() {
		born = time.Now() // it comes from elsewhere
	}
	if time.Since(born) > retention {
		return values.ErrTooOld
	}
	n := note{table: ns.table, group: ns.group, content: wire.HandledContent(ctx), holder: rand.Text(), retried: e.Retried}
	var keyed bool
	if n.key, keyed = keyOf(e, ns.group); keyed {
		n.since = born.UnixMilli()
		ns.sweep.keyed.Store(true)
	}
	if done, err := n.begin(ctx, ns.watch, ns.doubts); done || err != nil {
		return err
	}
	failed := n.while(ctx, f)

	// This context doesn't follow ctx, which may have ended f, or may have ended since.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if failed != nil {
		if verdict.Judge(verdict.Settled(failed)).OutcomeUnknown() {
			n.unknown = noteRow{Unknown: true, Retried: e.Retried}
			if n.noteOutcome(ctx) != nil {
				ns.doubts.keep(&n)
			}
			return failed
		}
		n.takeBack(ctx)
		return failed
	}
	n.done = true
	if err := n.noteOutcome(ctx); err != nil {
		ns.doubts.keep(&n)
		return err
	}
	ns.sweep.clock.Saw(born)
	ns.sweep.after(ctx)
	return nil
}

// note is the row of one message in one run of its reaction.
type note struct {
	table                       *storage.Table
	group, key, content, holder string
	since                       int64   // of a keyed note
	retried                     string  // the operator's decision by which this run begins
	done                        bool    // this run has succeeded
	unknown                     noteRow // of an earlier run whose effect may have happened, or of this one; else zero

	// These fields belong to the renewal while f runs.
	etag  storage.ETag
	beat  int64
	began time.Time // of the last write of the note begun that was acknowledged
	taken bool      // another run has the note
}

// begin notes the beginning, unless the effect is done already, or may be.
func (n *note) begin(ctx context.Context, watch watcher, doubts *doubts) (done bool, err error) {
	if by := doubts.of(n); by != nil {
		if by.done {
			return true, nil
		}
		if n.repeats(by.retried) {
			return false, errUnknown()
		}
		n.unknown = by.unknown
	}
	err = n.hold(ctx, storage.Condition{IfAbsent: true})
	if !errors.Is(err, storage.ErrExists) {
		return false, err
	}
	mark, etag, err := n.get(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		watch.seen.Forget(n.key)
		return false, verdict.Later(time.Second, "the first copy of this message has just failed")
	case err != nil:
		return false, err
	case mark.Content != n.content:
		return false, values.ErrContentDiffers
	case mark.Done:
		watch.seen.Forget(n.key)
		return true, nil
	}
	if mark.Holder != "" {
		if rest := watch.rest(n.key, etag); rest > 0 {
			return false, verdict.Later(min(rest, look), "a copy of this message is being handled, or its worker has died")
		}
	}
	if mark.Unknown {
		if n.repeats(mark.Retried) {
			return false, errUnknown()
		}
		n.unknown = noteRow{Unknown: true, Retried: mark.Retried}
	}
	err = n.hold(ctx, storage.Condition{IfMatch: etag})
	if storage.LostRace(err) {
		return false, errTaken()
	}
	if err == nil {
		watch.seen.Forget(n.key)
	}
	return false, err
}

// repeats reports that no operator has decided on this run since the one that began by the decision given.
func (n *note) repeats(retried string) bool { return n.retried == "" || n.retried == retried }

func errUnknown() error {
	return verdict.Poison(verdict.ReasonOutcomeUnknown, errors.New("a copy of this message was handled, and nobody knows whether its effect has happened"))
}

// Noted reports what is noted of a message in a group: nothing, that its effect has begun, or that it is
// done. The error matches values.ErrTooOld if nothing is noted and the note may be deleted.
func Noted(ctx context.Context, store *storage.Store, group string, e *wire.Envelope) (begun, done bool, err error) {
	key, _ := keyOf(e, group)
	n := note{table: store.Table(tableName), group: group, key: key}
	mark, _, err := n.get(ctx)
	switch born := e.Born(); {
	case err == nil:
		return true, mark.Done, nil
	case !errors.Is(err, storage.ErrNotFound):
		return false, false, err
	case !born.IsZero() && time.Since(born) > retention:
		return false, false, values.ErrTooOld
	}
	return false, false, nil
}

func errTaken() error { return verdict.Later(time.Second, "a copy of this message is being handled") }

func (n *note) get(ctx context.Context) (mark noteRow, etag storage.ETag, err error) {
	row, err := n.table.Get(ctx, n.group, n.key)
	if err != nil {
		return mark, "", err
	}
	if err := json.Unmarshal(row.Data, &mark); err != nil {
		return mark, "", fmt.Errorf("handlers: once: row of group %s: %w", n.group, err)
	}
	return mark, row.ETag, nil
}

// hold writes the note begun. Only an answer proves it: others may have watched an unanswered write for longer.
func (n *note) hold(ctx context.Context, cond storage.Condition) error {
	n.beat++
	start := time.Now()
	mark := n.unknown
	mark.Holder, mark.Beat = n.holder, n.beat
	err := n.put(ctx, mark, cond)
	if err == nil {
		n.began = start
	}
	return err
}

func (n *note) put(ctx context.Context, m noteRow, cond storage.Condition) error {
	m.Content, m.Since = n.content, n.since
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	etag, err := n.table.Put(ctx, n.group, n.key, b, cond)
	if err == nil {
		n.etag = etag
	}
	return err
}

// takeBack removes the note of an effect that did not happen, so that the next attempt begins at once. If that of an
// earlier run may have happened, the note says that instead. Where the store fails, others see the note unchanged and
// take over.
func (n *note) takeBack(ctx context.Context) {
	if n.unknown.Unknown {
		_ = n.put(ctx, n.unknown, storage.Condition{IfMatch: n.etag})
		return
	}
	_ = n.table.Delete(ctx, n.group, n.key, storage.Condition{IfMatch: n.etag})
}

// while runs f under the note. A panic becomes an error like any other. After runtime.Goexit nothing else runs here, so
// the note is taken back on the way out.
func (n *note) while(ctx context.Context, f func(context.Context) error) error {
	if !time.Now().Before(agree.ProvedUntil(n.began, lease)) {
		return errTaken() // the answer came so late that a copy may have taken over
	}
	return usercode.Do(func() error { return n.run(ctx, f) })
}

func (n *note) run(ctx context.Context, f func(context.Context) error) error {
	returned := false
	defer func(ctx context.Context) {
		if !returned {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
			defer cancel()
			n.takeBack(ctx)
		}
	}(ctx)
	own := agree.NewHold(ctx, lease, n.began, n.renew, endRun)
	err := func() error {
		defer own.Close()
		return f(own)
	}()
	returned = true
	if err != nil && n.taken && !verdict.Judge(verdict.Settled(err)).OutcomeUnknown() {
		return errTaken() // this is not f's fault
	}
	return err
}

// endRun ends f's context when the note is no longer proved to be this run's.
func endRun(own *right.Right, why error) {
	if why == nil {
		why = fmt.Errorf("%w: no answer", storage.ErrUnavailable)
	}
	own.End(fmt.Errorf("handlers: once: can't renew the note that this message is being handled: %w", why))
}

// renew writes the note begun again, while f runs.
func (n *note) renew(ctx context.Context) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	err = n.hold(ctx, storage.Condition{IfMatch: n.etag})
	if storage.LostRace(err) {
		err = n.holdAgain(ctx, err)
	}
	n.taken = storage.LostRace(err)
	return n.taken, err
}

// holdAgain renews a note that has changed, if an earlier renewal of this run changed it and its answer was lost.
func (n *note) holdAgain(ctx context.Context, changed error) error {
	mark, etag, err := n.get(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return changed
	case err != nil:
		return err
	case mark.Holder != n.holder:
		return changed
	}
	n.etag = etag
	return n.hold(ctx, storage.Condition{IfMatch: etag})
}

// watcher remembers since when this process has seen notes of other runs unchanged, between deliveries of waiting
// copies. Elapsed time on one machine decides. A copy that is delivered to another worker is watched there from the
// beginning.
type watcher struct{ seen agree.Memory[struct{}] }

// rest returns for how long a note that was just read must still stay unchanged until its run counts as dead.
func (w watcher) rest(key string, etag storage.ETag) time.Duration {
	return w.seen.Note(key, agree.Sighting[struct{}]{ETag: etag, Since: time.Now()}).TakenFor(lease)
}
