package handlers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	onceTable     = "once"
	onceLease     = 30 * time.Second // how long a second copy waits for a first one that says nothing more
	onceMargin    = onceLease / 10   // how long before the lease ends f must know
	onceNoting    = 5 * time.Second  // bounds the note after f
	onceRetention = 30 * 24 * time.Hour
	onceClocks    = 24 * time.Hour       // how much longer notes are kept than they are trusted: clocks differ
	onceSweep     = storage.MaxBatchRows // old notes are forgotten once in so many effects, up to twice as many
)

// onceMark is the row that tells of an effect: begun, or done.
type onceMark struct {
	Done    bool      `json:"done"`
	Until   time.Time `json:"until,omitzero"`  // of one begun: when a second copy may take over
	Holder  string    `json:"holder,omitzero"` // of one begun: the run that it belongs to
	Content string    `json:"content"`         // digest: is a message with this ID the same message?
}

// Once guards a reaction whose effect should not be repeated: an e-mail, a payment. It notes each message that
// group has handled, by its ID, before and after f. A copy of a message done is skipped; a copy of one that is
// being handled waits; another message with the same ID is refused, as values.ErrContentDiffers. When f fails the note is taken back, and the next attempt begins at once.
//
// The note begun is a lease of 30 seconds, renewed while f runs; when it can't be renewed in time, f's context
// ends.
//
// One gap remains that no guard can close from this side: if the process dies after the effect and before the
// note, the effect is repeated once the lease ends. Give the outside world the message's ID where it can
// recognise a repeat; channel.Handled tells it.
//
// Notes are kept for 30 days, those of IDs that carry no time for ever. A message whose ID carries an older time
// can't be judged and goes to the poison queue, as values.ErrTooOld.
func Once[E channel.Message](store *storage.Store, group string, f func(context.Context, E) error) func(context.Context, E) error {
	table := store.Table(onceTable)
	var sinceSweep atomic.Int64
	sinceSweep.Store(mathrand.Int64N(onceSweep)) // a process that ends sooner does its part
	return func(ctx context.Context, m E) error {
		e, _, ok := channel.Handled(ctx)
		if !ok {
			return errors.New("handlers: Once outside of a handler's context")
		}
		if t, timed := channel.IDTime(e.ID); timed && time.Since(t) > onceRetention {
			return values.ErrTooOld
		}
		n := onceNote{table: table, group: group, key: onceKey(e.ID, group), content: channel.HandledContent(ctx), holder: rand.Text()}
		if done, err := n.begin(ctx); done || err != nil {
			return err
		}
		failed := n.while(ctx, func(ctx context.Context) error { return f(ctx, m) })

		// Not under ctx, which may be what ended f, or may have ended since.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceNoting)
		defer cancel()
		if failed != nil {
			_ = table.Delete(ctx, group, n.key, storage.Condition{IfMatch: n.etag}) // else the lease ends by itself
			return failed
		}
		if err := n.put(ctx, onceMark{Done: true}, storage.Condition{}); err != nil {
			return err
		}
		if sinceSweep.Add(1)%onceSweep == 0 {
			_ = onceForget(ctx, table, group) // is no fault of this message; what stays is for the next sweep
		}
		return nil
	}
}

// onceNote is the row of one message in one run of its reaction.
type onceNote struct {
	table                       *storage.Table
	group, key, content, holder string

	mu     sync.Mutex // held during a renewal
	etag   storage.ETag
	until  time.Time // end of the lease
	timer  *time.Timer
	cancel context.CancelCauseFunc // ends f's context; nil before f and after
	lost   bool                    // another run has the note
}

// begin notes the beginning, unless the effect is done already.
func (n *onceNote) begin(ctx context.Context) (done bool, err error) {
	err = n.lease(ctx, storage.Condition{IfAbsent: true})
	if !errors.Is(err, storage.ErrExists) {
		return false, err
	}
	mark, etag, err := n.get(ctx)
	if errors.Is(err, storage.ErrNotFound) {
		return false, Later(time.Second, "the first copy of this message has just failed")
	}
	if err != nil {
		return false, err
	}
	if mark.Content != n.content {
		return false, values.ErrContentDiffers
	}
	if mark.Done {
		return true, nil
	}
	if wait := time.Until(mark.Until); wait > 0 {
		return false, Later(wait, "a copy of this message is being handled")
	}
	err = n.lease(ctx, storage.Condition{IfMatch: etag})
	if storage.LostRace(err) {
		return false, errTaken()
	}
	return false, err
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

func (n *onceNote) lease(ctx context.Context, cond storage.Condition) error {
	until := time.Now().Add(onceLease)
	err := n.put(ctx, onceMark{Until: until, Holder: n.holder}, cond)
	if err == nil {
		n.until = until
	}
	return err
}

func (n *onceNote) put(ctx context.Context, m onceMark, cond storage.Condition) error {
	m.Content = n.content
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

// while runs f under the lease. A panic is an error like any other: the note is taken back.
func (n *onceNote) while(ctx context.Context, f func(context.Context) error) (err error) {
	defer caught(&err)
	ctx, cancel := context.WithCancelCause(ctx)
	n.keep(ctx, cancel)
	err = func() error {
		defer n.letGo(cancel)
		return f(ctx)
	}()
	if err != nil && n.lost {
		return errTaken() // it is not f's fault
	}
	return err
}

// keep renews the lease until letGo, and cancels when that fails.
func (n *onceNote) keep(ctx context.Context, cancel context.CancelCauseFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cancel = cancel
	n.timer = time.AfterFunc(onceLease/3, func() { n.renew(ctx) })
}

func (n *onceNote) renew(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel == nil {
		return
	}
	last := n.until.Add(-onceMargin)
	c, cancel := context.WithDeadline(ctx, last)
	defer cancel()
	err := n.lease(c, storage.Condition{IfMatch: n.etag})
	if storage.LostRace(err) {
		err = n.adopt(c, err)
	}
	n.lost = storage.LostRace(err)
	switch {
	case err == nil:
		n.timer.Reset(onceLease / 3)
	case n.lost, time.Until(last) <= 0:
		n.cancel(fmt.Errorf("handlers: once: can't renew the note that this message is being handled: %w", err))
	default:
		n.timer.Reset(min(onceMargin, time.Until(last)))
	}
}

// adopt finds out whether a note that has changed was changed by an earlier renewal, whose answer was lost.
func (n *onceNote) adopt(ctx context.Context, changed error) error {
	mark, etag, err := n.get(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return changed
	case err != nil:
		return err
	case mark.Holder != n.holder:
		return changed
	}
	n.etag, n.until = etag, mark.Until
	return nil
}

// letGo ends renewal, also one that is under way.
func (n *onceNote) letGo(cancel context.CancelCauseFunc) {
	cancel(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timer.Stop()
	n.cancel = nil
}

// onceKey sorts the notes of IDs that carry a time by it, and the others behind them.
func onceKey(id, group string) string {
	prefix := "t-"
	if _, timed := channel.IDTime(id); !timed {
		prefix = "u-"
	}
	return prefix + channel.DerivedID(id, "once", group)
}

// onceForget deletes the oldest notes that are past retention. Nothing rests on it: a message of such a note is too old to
// be judged. So what fails, or is left when ctx ends, is for the next time. More go than have come since the last time, so
// they don't pile up.
func onceForget(ctx context.Context, t *storage.Table, group string) error {
	ms := fmt.Sprintf("%012x", time.Now().Add(-onceRetention-onceClocks).UnixMilli())
	var old []string
	for row, err := range t.Query(ctx, group, storage.RowRange{From: "t-", To: "t-" + ms[:8] + "-" + ms[8:], Limit: 2 * onceSweep}) {
		if err != nil {
			return err
		}
		old = append(old, row.Key)
	}
	return t.DeleteRows(ctx, group, old)
}
