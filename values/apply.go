package values

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// A Change is one message for a document.
type Change[V any] struct {
	// Envelope is the message. It has its data.
	Envelope *channel.Envelope

	// Group is the subscriber group whose queue an event came from, where several groups may bring the same event to the
	// same document. Each of them then has it applied, once. It is empty for commands and for the views' events.
	Group string

	// Fold returns the next value and the messages that it emits. It is pure, but may change the maps and slices of the
	// value. When it fails, its message alone fails, with this error. It may be called again when a race is lost or
	// another message fails. Then maps and slices that it takes from its message must be new. [ErrUnchanged] is no
	// failure.
	Fold func(V) (V, []channel.Message, error)
}

// Apply folds messages into the document of a key in one read-modify-write, and ends their deliveries by commit in the
// same unit of work. With a nil commit there are no deliveries to end. The result has an outcome for each change. Its
// error is
//
//   - nil: the change is applied (now or before) and its emissions are sent, or it changes nothing ([ErrUnchanged]).
//     Its delivery is Deleted or Stale, or StillThere where commit is nil.
//   - [ErrContentDiffers] and [ErrTooOld]: it can never be applied.
//   - An error of Fold, as it is.
//   - Any other error: the outcome is unknown, and the message must come again.
//
// A delivery whose change has an error is StillThere.
func (c *Collection[V]) Apply(ctx context.Context, key string, changes []Change[V], commit Commit) []Outcome {
	outs := make([]Outcome, len(changes))
	races := c.newRaces()
	var sent map[messageDigest]bool
	for cached := true; ; cached = false {
		d, remembered, err := c.take(ctx, key, cached)
		if err != nil {
			return fill(outs, err)
		}
		if d.sent == nil {
			d.sent = sent
		}
		u := unit[V]{c: c, ctx: ctx, key: key, now: time.Now(), doc: d, remembered: remembered, changes: changes, commit: commit, outs: outs}
		err = u.run()
		switch {
		case err == nil:
			forget, present := d.due(u.applied, u.now)
			c.cache.Add(key, d, d.size) // from now on the cache owns d
			c.forgetRows(ctx, key, present, forget)
			return outs
		case err == errOutdated, storage.LostRace(err):
			clear(outs)
			sent = d.sent
			if err := races.wait(ctx); err != nil {
				return fill(outs, err)
			}
		case contentFault(err) && len(changes) > 1:
			// The write did nothing. Fold each message by itself to find the one at fault.
			for i := range changes {
				outs[i] = c.Apply(ctx, key, changes[i:i+1], commit.Of(i))[0]
			}
			return outs
		default:
			if remembered {
				clear(outs) // the document that refused them may be outdated
			}
			return fill(outs, err)
		}
	}
}

// fill gives the error to all changes that have none of their own.
func fill(outs []Outcome, err error) []Outcome {
	for i := range outs {
		if outs[i].Err == nil {
			outs[i].Err = err
		}
	}
	return outs
}

// errContent marks an error that one message may have caused.
var errContent = errors.New("content")

func contentFault(err error) bool {
	return errors.Is(err, errContent) || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrInvalid)
}

// errOutdated says that messages were judged by a document that others have changed since.
var errOutdated = errors.New("the document has changed")

// unit is one try at folding messages into a document.
type unit[V any] struct {
	c   *Collection[V]
	ctx context.Context
	key string
	now time.Time
	doc *document[V]

	remembered bool // doc comes from memory and may be older than the stored document

	changes []Change[V]
	commit  Commit            // nil: there are no deliveries to end
	outs    []Outcome         // of the changes: errors of those that failed by themselves, and how deliveries ended
	entries []entry           // of all changes
	rows    map[string][]byte // of messages that may have left the window; a nil value: no row

	applied   int                // how many changes are new to the document
	folded    []wire.Folded      // the same, for whoever watches; see wire.Outbox
	emits     []channel.Envelope // what those changes emit
	beside    *storage.Rows      // what those changes put beside the document
	noted     []pending          // the same, to be written as pending; stow fills them in
	resend    []pending          // pending emissions of replays
	dropped   []pending          // pending emissions that the write leaves out
	done      []int              // changes whose deliveries end
	byRow     bool               // a replay was found by its row
	unchanged bool               // a fold said ErrUnchanged
	unknown   bool               // the unit of work failed, but its document may be written
}

func (u *unit[V]) run() (err error) {
	committed := u.doc.record.len()
	for i := range u.changes {
		x := entryIn(u.changes[i].Group, u.changes[i].Envelope, u.now)
		x.known = u.c.Idempotent(u.changes[i].Envelope)
		u.entries = append(u.entries, x)
	}
	u.readRows()
	if err := u.fold(); err != nil {
		return err
	}
	if u.applied == 0 {
		if err := u.prove(); err != nil {
			return err
		}
		return u.finish(storage.Work{})
	}
	if err := u.settlePending(); err != nil {
		return err
	}
	rows := u.age(committed)
	if rows != nil && (!u.c.atomic || u.beside != nil) { // while deliveries are renewed, and before any body lies beside
		if err := u.c.rows.PutRows(u.ctx, rows.Partition, rows.Puts); err != nil {
			return u.fault(err)
		}
		rows = nil
	}
	if u.beside != nil {
		rows = u.beside
	}
	defer func() {
		if err != nil && !u.unknown {
			u.dropStowed()
		}
	}()
	if err := u.stow(); err != nil {
		return u.packFault(err)
	}
	body, err := u.doc.encode()
	if err != nil {
		return u.fault(fmt.Errorf("%w: %w", errContent, err))
	}
	if watch := u.c.channels.Outbox().Folded; watch != nil {
		watch(u.c.name, u.key, body, u.folded)
	}
	return u.finish(storage.Work{
		Rows:  rows,
		Write: &storage.Write{Container: u.c.name, Key: u.key, Body: body, If: u.doc.condition()},
	})
}

// prove makes sure that the document was not outdated where it refused a message, was left unchanged by one, or gave
// the pending emissions of a replay. A write would be guarded by its ETag; here nothing is written. A row that shows a
// replay may be newer than the document, remembered or not.
func (u *unit[V]) prove() error {
	refused := slices.ContainsFunc(u.outs, func(o Outcome) bool { return o.Err != nil })
	if !(u.remembered && (refused || u.unchanged) || u.byRow && !u.c.atomic) {
		return nil
	}
	_, err := u.c.blobs.Get(u.ctx, u.key, u.doc.etag)
	absent := errors.Is(err, storage.ErrNotFound)
	switch {
	case errors.Is(err, storage.ErrNotModified), absent && u.doc.etag == "":
		return nil
	case err == nil, absent:
		return errOutdated
	}
	clear(u.outs) // no verdict is left
	return u.fault(err)
}

// fold judges and applies the changes in order. When one fails, all that it may have changed is thrown away, and the
// others are folded again without it.
func (u *unit[V]) fold() error {
	base := *u.doc // folding only appends to the slices of base
	for {
		u.applied, u.folded, u.emits, u.noted, u.resend, u.done = 0, nil, nil, nil, nil, nil
		u.byRow, u.unchanged, u.beside = false, false, nil
		*u.doc = base
		spoiled := false
		for i := range u.changes {
			if u.outs[i].Err != nil {
				continue
			}
			if err := u.judge(i); err != nil {
				u.outs[i].Err = err
				spoiled = true
				break
			}
		}
		if !spoiled {
			return nil
		}
		var err error
		if base.raw == nil {
			base.value = u.c.cfg.Initial(u.key)
		} else if base.value, err = decodeValue[V](base.raw); err != nil {
			return u.fault(err)
		}
	}
}

// judge applies change i if it is new to the document, or sends what is pending for a replay.
func (u *unit[V]) judge(i int) error {
	x := u.entries[i]
	replay, err := u.replay(x)
	if err == nil && !replay {
		err = contain.Call(func() error { return u.apply(i, x) })
	}
	if err != nil {
		return err
	}
	for _, p := range u.doc.pending {
		if replay && p.Message == x.id && !u.doc.sent[p.Message] {
			u.resend = append(u.resend, p)
		}
	}
	u.done = append(u.done, i)
	return nil
}

// replay reports that the document has applied a message before.
func (u *unit[V]) replay(x entry) (bool, error) {
	if x.known { // the value tells, but it can't emit again what is still pending
		return slices.ContainsFunc(u.doc.pending, func(p pending) bool { return p.Message == x.id }), nil
	}
	before, found := u.doc.record.find(x)
	same := found && before.content == x.content
	if !found && u.doc.record.mayHaveLeft(x) {
		if u.tooOld(x) {
			return false, ErrTooOld
		}
		var data []byte
		var err error
		if data, found, err = u.row(x); err != nil {
			return false, err
		}
		same = found && x.same(data)
		u.byRow = u.byRow || found
	}
	if found && !same {
		return false, ErrContentDiffers
	}
	return found, nil
}

// apply calls a fold, and methods of its messages and value.
func (u *unit[V]) apply(i int, x entry) error {
	e, d := u.changes[i].Envelope, u.doc
	v, emissions, err := u.changes[i].Fold(d.value)
	if errors.Is(err, ErrUnchanged) {
		u.unchanged = true
		return nil
	}
	if err != nil {
		return err
	}
	if d.value, d.form, err = u.c.settle(v); err != nil {
		return u.fault(fmt.Errorf("%w: %w", errContent, err))
	}
	sent := 0
	for j, m := range emissions {
		if r, ok := m.(wire.Row); ok {
			u.put(r)
			continue
		}
		x, err := wire.ComposeEmission(e, u.changes[i].Group, j, m, u.c.Source(u.key), u.key, u.now)
		if err != nil {
			return fmt.Errorf("emission %d of %d, %T: %w", j+1, len(emissions), wire.Unwrap(m), err)
		}
		sent++
		d.emitted++
		x.Sequence = d.emitted
		u.order(&x)
		u.emits = append(u.emits, x)
	}
	if sent > 0 && !u.c.atomic {
		u.noted = append(u.noted, pending{Message: x.id, At: u.now, Events: make([]jsontext.Value, sent)})
	}
	d.version++
	if !x.known {
		d.record.add(x)
	}
	u.applied++
	if o := u.c.channels.Outbox(); o.Folded != nil {
		u.folded = append(u.folded, wire.Folded{ID: x.id, Content: x.content, At: o.Now()})
	}
	return nil
}

// order names in an emission the one before it to each queue that is in order. A delayed one is outside of the order.
func (u *unit[V]) order(x *channel.Envelope) {
	queues := u.c.channels.Routes().OrderedQueues(x.Kind)
	if len(queues) == 0 || !x.Due.IsZero() {
		return
	}
	d := u.doc
	x.SetPrevious(queues, func(q string) wire.Stamp { return d.ordered[q] })
	last := maps.Clone(d.ordered)
	if last == nil {
		last = map[string]wire.Stamp{}
	}
	for _, q := range queues {
		last[q] = wire.Stamp{Sequence: x.Sequence, At: x.Time.UnixMilli()}
	}
	d.ordered = last
}

// finish commits the write, if any, the emissions, and the end of the deliveries.
func (u *unit[V]) finish(work storage.Work) error {
	for _, p := range u.resend {
		if err := u.c.repack(u.ctx, p, &u.emits); err != nil {
			return err
		}
	}
	packed, err := u.c.channels.Outbox().Pack(u.ctx, u.emits...)
	if err != nil {
		return u.packFault(err)
	}
	work.Send = packed.Sends
	if err := u.end(work); err != nil {
		if storage.LostRace(err) || contentFault(err) {
			u.c.channels.Outbox().Discard(u.ctx, packed) // certainly nothing was written or sent
		} else {
			u.unknown = true
		}
		return u.fault(err)
	}
	u.committed()
	return nil
}

func (u *unit[V]) fault(err error) error {
	if storage.LostRace(err) {
		return err
	}
	return fmt.Errorf("values: %s %s: %w", u.c.name, storage.Quote(u.key), err)
}

// packFault is fault for emissions that could not be packed.
func (u *unit[V]) packFault(err error) error {
	if failed := (*storage.Error)(nil); !errors.As(err, &failed) { // an emission without a route, say
		err = fmt.Errorf("%w: %w", errContent, err)
	}
	return u.fault(err)
}

// races counts lost races and waits between them.
type races struct {
	left  int
	began time.Time
	delay *backoff.ExponentialBackOff // nil before the first
}

func (c *Collection[V]) newRaces() *races { return &races{left: c.cfg.MaxRaces, began: time.Now()} }

// wait gives others time to write. How long follows from how long a try takes on this store: an early try loses again.
func (r *races) wait(ctx context.Context) error {
	if r.left--; r.left < 0 {
		return ErrContended
	}
	if r.delay == nil {
		took := max(time.Since(r.began), time.Millisecond)
		r.delay = backoff.NewExponentialBackOff(backoff.WithInitialInterval(took), backoff.WithMultiplier(2),
			backoff.WithMaxInterval(max(20*took, 100*time.Millisecond)), backoff.WithMaxElapsedTime(0))
	}
	t := time.NewTimer(r.delay.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
