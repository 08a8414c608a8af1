package handlers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	onceTable = "once"

	// A note begun is a lease with the times of coord/lease, whose package comment proves them. It is a row, not a lease's
	// blob: the write that releases it turns it into the note done, and rows are swept in batches.
	onceLease  = 30 * time.Second
	onceRenew  = onceLease / 3
	onceProved = onceLease * 5 / 6 // so long after the start of its last write a run has the note for sure
	onceDead   = onceLease * 7 / 6 // so long a process sees a note unchanged before it takes it over
	onceLook   = onceLease / 3     // a waiting copy is delivered so often that all workers begin to watch soon
	onceCall   = onceLease / 4     // bounds a renewal, and leaves time for another
	onceAgain  = onceLease / 12    // the time to the next renewal after one that failed
	onceSights = 4096              // notes that a process watches; a note beyond them counts as seen for the first time

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
	watch := newOnceWatch()
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

	mu     sync.Mutex // held during a renewal
	etag   storage.ETag
	beat   int64
	proved time.Time // until then no other run can have the note
	next   *time.Timer
	own    *right.Right // f's context, which ends at proved; nil before f and after
	taken  bool         // another run has the note

	failure atomic.Pointer[error] // of the last renewal; without mu, which a store that hangs would keep locked
}

// begin notes the beginning, unless the effect is done already, or may be.
func (n *onceNote) begin(ctx context.Context, watch *onceWatch, doubts *onceDoubts) (done bool, err error) {
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
		watch.forget(n.key)
		return false, Later(time.Second, "the first copy of this message has just failed")
	case err != nil:
		return false, err
	case mark.Content != n.content:
		return false, values.ErrContentDiffers
	case mark.Done:
		watch.forget(n.key)
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
		watch.forget(n.key)
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
		n.proved = start.Add(onceProved)
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
	if !time.Now().Before(n.proved) {
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
	own := n.keep(ctx)
	err := func() error {
		defer n.letGo(own)
		return f(own)
	}()
	returned = true
	if err != nil && n.taken && !Judge(settled(err)).OutcomeUnknown() {
		return errTaken() // this is not f's fault
	}
	return err
}

// keep renews the note until letGo. It returns f's context, which ends when the note is no longer proved to be this
// run's.
func (n *onceNote) keep(ctx context.Context) *right.Right {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.own = right.New(ctx, n.proved, func(own *right.Right) {
		err := fmt.Errorf("%w: no answer", storage.ErrUnavailable)
		if last := n.failure.Load(); last != nil {
			err = *last
		}
		own.End(errNotRenewed(err))
	})
	n.next = time.AfterFunc(onceRenew, n.renew)
	return n.own
}

func errNotRenewed(err error) error {
	return fmt.Errorf("handlers: once: can't renew the note that this message is being handled: %w", err)
}

func (n *onceNote) renew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.own == nil || n.own.Err() != nil {
		return
	}
	c, cancel := context.WithTimeout(n.own, onceCall)
	defer cancel()
	err := n.hold(c, storage.Condition{IfMatch: n.etag})
	if storage.LostRace(err) {
		err = n.holdAgain(c, err)
	}
	switch {
	case err == nil:
		n.failure.Store(nil)
		n.own.Prove(n.proved)
		n.next.Reset(onceRenew)
	case storage.LostRace(err):
		n.taken = true
		n.own.End(errNotRenewed(err))
	default:
		n.failure.Store(&err)
		n.next.Reset(onceAgain)
	}
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

// letGo ends renewal, even while a renewal is under way.
func (n *onceNote) letGo(own *right.Right) {
	own.End(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next.Stop()
	n.own = nil
}

// onceWatch remembers since when this process has seen notes of other runs unchanged, between deliveries of waiting
// copies. Elapsed time on one machine decides. A copy that is delivered to another worker is watched there from the
// beginning.
type onceWatch struct {
	mu   sync.Mutex
	seen *lru.Cache[onceSight]
}

type onceSight struct {
	etag storage.ETag
	at   time.Time
}

func newOnceWatch() *onceWatch {
	return &onceWatch{seen: lru.New[onceSight](onceSights, onceSights)}
}

// rest returns for how long a note that was just read must still stay unchanged until its run counts as dead.
func (w *onceWatch) rest(key string, etag storage.ETag) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	sight, ok := w.seen.Get(key)
	if !ok || sight.etag != etag {
		sight = onceSight{etag, time.Now()} // after it was read, so not before it was written
		w.seen.Add(key, sight, 1)
	}
	return onceDead - time.Since(sight.at)
}

func (w *onceWatch) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Take(key)
}
