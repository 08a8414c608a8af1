package handlers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	onceTable = "once"

	// A note begun is held as a lease is, by agree.Hold. It is a row, not a lease's blob: the write that releases it turns
	// it into the note done, and rows are swept in batches.
	onceLease = 30 * time.Second
	onceLook  = onceLease / 3 // a waiting copy is delivered so often that all workers begin to watch soon
	onceCall  = onceLease / 4 // bounds a renewal, and leaves time for another

	onceNoting    = 5 * time.Second // bounds the note after f
	onceRetention = 30 * 24 * time.Hour
)

// onceMark is the row that notes an effect as begun or done. It doesn't hold when a run was alive, so no two machines'
// clocks are compared.
type onceMark struct {
	Done    bool   `json:"done"`
	Holder  string `json:"holder,omitzero"` // of a note begun: the run that holds it
	Beat    int64  `json:"beat,omitzero"`   // of a note begun: each renewal adds one
	Content string `json:"content"`         // digest: tells whether a message with this ID is the same message
	Since   int64  `json:"since,omitzero"`  // of a keyed note: from when the message counts, in milliseconds

	Unknown bool   `json:"unknown,omitzero"` // a run has ended, and its effect may have happened
	Retried string `json:"retried,omitzero"` // of Unknown: the operator's decision by which that run began
}

// guardOnce makes a reaction one that [ReactOnce] registers.
func guardOnce[E channel.Message](store *storage.Store, group string, f func(context.Context, E) error) func(context.Context, E) error {
	table := store.Table(onceTable)
	watch := onceWatch{agree.NewMemory[struct{}]()}
	doubts := newOnceDoubts()
	sweep := newOnceSweep(table, group)
	return func(ctx context.Context, m E) error {
		e, _, ok := channel.Handled(ctx)
		if !ok {
			return errors.New("handlers: a reaction of ReactOnce outside of a handler's context")
		}
		born := e.Born()
		if born.IsZero() {
			born = time.Now() // it comes from elsewhere
		}
		if time.Since(born) > onceRetention {
			return values.ErrTooOld
		}
		n := onceNote{table: table, group: group, content: wire.HandledContent(ctx), holder: rand.Text(), retried: e.Retried}
		var keyed bool
		if n.key, keyed = onceKey(&e, group); keyed {
			n.since = born.UnixMilli()
			sweep.keyed.Store(true)
		}
		if done, err := n.begin(ctx, watch, doubts); done || err != nil {
			return err
		}
		failed := n.while(ctx, func(ctx context.Context) error { return f(ctx, m) })

		// This context doesn't follow ctx, which may have ended f, or may have ended since.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceNoting)
		defer cancel()
		if failed != nil {
			if Judge(settled(failed)).OutcomeUnknown() {
				n.unknown = onceMark{Unknown: true, Retried: e.Retried}
				if n.noteOutcome(ctx) != nil {
					doubts.keep(&n)
				}
				return failed
			}
			n.takeBack(ctx)
			return failed
		}
		n.done = true
		if err := n.noteOutcome(ctx); err != nil {
			doubts.keep(&n)
			return err
		}
		sweep.clock.saw(born)
		sweep.after(ctx)
		return nil
	}
}

// onceNote is the row of one message in one run of its reaction.
type onceNote struct {
	table                       *storage.Table
	group, key, content, holder string
	since                       int64    // of a keyed note
	retried                     string   // the operator's decision by which this run begins
	done                        bool     // this run has succeeded
	unknown                     onceMark // of an earlier run whose effect may have happened, or of this one; else zero

	// These fields belong to the renewal while f runs.
	etag  storage.ETag
	beat  int64
	began time.Time // of the last write of the note begun that was acknowledged
	taken bool      // another run has the note
}

// begin notes the beginning, unless the effect is done already, or may be.
func (n *onceNote) begin(ctx context.Context, watch onceWatch, doubts *onceDoubts) (done bool, err error) {
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
		return false, Later(time.Second, "the first copy of this message has just failed")
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
			return false, Later(min(rest, onceLook), "a copy of this message is being handled, or its worker has died")
		}
	}
	if mark.Unknown {
		if n.repeats(mark.Retried) {
			return false, errUnknown()
		}
		n.unknown = onceMark{Unknown: true, Retried: mark.Retried}
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
func (n *onceNote) repeats(retried string) bool { return n.retried == "" || n.retried == retried }

func errUnknown() error {
	return Poison(ReasonOutcomeUnknown, errors.New("a copy of this message was handled, and nobody knows whether its effect has happened"))
}

// Noted reports what [ReactOnce] has noted of a message in a group: nothing, that its effect has begun, or that it is
// done. It is for tools. The error matches values.ErrTooOld if nothing is noted and the note may be deleted.
func Noted(ctx context.Context, store *storage.Store, group string, e *channel.Envelope) (begun, done bool, err error) {
	key, _ := onceKey(e, group)
	n := onceNote{table: store.Table(onceTable), group: group, key: key}
	mark, _, err := n.get(ctx)
	switch born := e.Born(); {
	case err == nil:
		return true, mark.Done, nil
	case !errors.Is(err, storage.ErrNotFound):
		return false, false, err
	case !born.IsZero() && time.Since(born) > onceRetention:
		return false, false, values.ErrTooOld
	}
	return false, false, nil
}

func errTaken() error { return Later(time.Second, "a copy of this message is being handled") }

func (n *onceNote) get(ctx context.Context) (mark onceMark, etag storage.ETag, err error) {
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
func (n *onceNote) hold(ctx context.Context, cond storage.Condition) error {
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

func (n *onceNote) put(ctx context.Context, m onceMark, cond storage.Condition) error {
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
func (n *onceNote) takeBack(ctx context.Context) {
	if n.unknown.Unknown {
		_ = n.put(ctx, n.unknown, storage.Condition{IfMatch: n.etag})
		return
	}
	_ = n.table.Delete(ctx, n.group, n.key, storage.Condition{IfMatch: n.etag})
}

// while runs f under the note. A panic becomes an error like any other. After runtime.Goexit nothing else runs here, so
// the note is taken back on the way out.
func (n *onceNote) while(ctx context.Context, f func(context.Context) error) error {
	if !time.Now().Before(agree.ProvedUntil(n.began, onceLease)) {
		return errTaken() // the answer came so late that a copy may have taken over
	}
	return contained(func() error { return n.run(ctx, f) })
}

func (n *onceNote) run(ctx context.Context, f func(context.Context) error) error {
	returned := false
	defer func(ctx context.Context) {
		if !returned {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceNoting)
			defer cancel()
			n.takeBack(ctx)
		}
	}(ctx)
	own := agree.NewHold(ctx, onceLease, n.began, n.renew, endOnce)
	err := func() error {
		defer own.Close()
		return f(own)
	}()
	returned = true
	if err != nil && n.taken && !Judge(settled(err)).OutcomeUnknown() {
		return errTaken() // this is not f's fault
	}
	return err
}

// endOnce ends f's context when the note is no longer proved to be this run's.
func endOnce(own *right.Right, why error) {
	if why == nil {
		why = fmt.Errorf("%w: no answer", storage.ErrUnavailable)
	}
	own.End(fmt.Errorf("handlers: once: can't renew the note that this message is being handled: %w", why))
}

// renew writes the note begun again, while f runs.
func (n *onceNote) renew(ctx context.Context) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, onceCall)
	defer cancel()
	err = n.hold(ctx, storage.Condition{IfMatch: n.etag})
	if storage.LostRace(err) {
		err = n.holdAgain(ctx, err)
	}
	n.taken = storage.LostRace(err)
	return n.taken, err
}

// holdAgain renews a note that has changed, if an earlier renewal of this run changed it and its answer was lost.
func (n *onceNote) holdAgain(ctx context.Context, changed error) error {
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

// onceWatch remembers since when this process has seen notes of other runs unchanged, between deliveries of waiting
// copies. Elapsed time on one machine decides. A copy that is delivered to another worker is watched there from the
// beginning.
type onceWatch struct{ seen agree.Memory[struct{}] }

// rest returns for how long a note that was just read must still stay unchanged until its run counts as dead.
func (w onceWatch) rest(key string, etag storage.ETag) time.Duration {
	return w.seen.Note(key, agree.Sighting[struct{}]{ETag: etag, Since: time.Now()}).TakenFor(onceLease)
}
