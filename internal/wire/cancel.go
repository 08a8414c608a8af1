package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// ErrNotDelayed says that no message with an ID waits for its due time.
var ErrNotDelayed = errors.New("it does not wait for its due time: it was handled or is being handled, was cancelled, or was never sent with a delay")

// Cancellations are those of the messages of an outbox.
type Cancellations struct{ o *Outbox }

// Cancellations returns the cancellations of the outbox's messages.
func (o *Outbox) Cancellations() Cancellations { return Cancellations{o} }

// Cancel takes back the messages of a kind with an ID that are not due yet, from all queues that the kind goes to.
func (c Cancellations) Cancel(ctx context.Context, kind Kind, id string) error {
	err := CheckID(id)
	if err != nil {
		return fmt.Errorf("channel: cancel %s: %w: %w", kind, ErrAttribute, err)
	}
	queues, err := c.o.queues(kind)
	if err != nil {
		return err
	}
	var faults []error
	for _, q := range queues {
		faults = append(faults, c.CancelIn(ctx, q, kind, id))
	}
	return errors.Join(faults...)
}

// CancelIn is Cancel for one queue, whatever kinds go there.
func (c Cancellations) CancelIn(ctx context.Context, queue string, kind Kind, id string) (err error) {
	if c.o.store.Finds() {
		err = c.withdraw(ctx, queue, kind, id)
	} else {
		err = c.putTombstone(ctx, queue, kind, id)
	}
	if err != nil {
		return fmt.Errorf("channel: cancel %s %s in queue %s: %w", kind, storage.Quote(id), queue, err)
	}
	return nil
}

const (
	// A message that isn't due is in a worker's hands for a moment, once a week. Cancel looks again so often and so long.
	lookAgain = 20 * time.Millisecond
	lookFor   = 10 * time.Second
)

// withdraw deletes the messages themselves.
func (c Cancellations) withdraw(ctx context.Context, queue string, kind Kind, id string) error {
	began, all := time.Now(), withdrawal{}
	for {
		all.moving = false
		if err := c.withdrawWaiting(ctx, queue, kind, id, &all); err != nil {
			return err
		}
		switch {
		case !all.moving && (all.started || all.deleted == 0):
			return ErrNotDelayed
		case !all.moving:
			return nil
		case time.Since(began) > lookFor:
			return fmt.Errorf("%w: a worker holds it, and is to hand it back; cancel it again", storage.ErrUnavailable)
		}
		pause := time.NewTimer(lookAgain)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// A withdrawal is what became of the messages with an ID.
type withdrawal struct {
	deleted int
	started bool // a handler has one, or has had it
	moving  bool // one is not due, but a worker holds it
}

// withdrawWaiting deletes those that wait.
func (c Cancellations) withdrawWaiting(ctx context.Context, queue string, kind Kind, id string, all *withdrawal) error {
	q := c.o.store.Queue(queue)
	found, err := q.Find(ctx, id)
	if err != nil {
		return err
	}
	for _, d := range found {
		e, err := Decode(d.Body)
		if err != nil || e.Kind != kind || e.ID != id {
			continue
		}
		early := e.Early(time.Now()) > 0
		switch {
		case e.started(), !early && (d.Receipt == "" || d.Deliveries > e.Hops):
			all.started = true
			continue
		case d.Receipt == "":
			all.moving = true
			continue
		}
		switch err := q.Delete(ctx, []storage.Receipt{d.Receipt}); {
		case errors.Is(err, storage.ErrReceiptStale):
			all.moving = true // a worker was faster: the next look shows what it does
			continue
		case err != nil:
			return err
		}
		all.deleted++
		if e.DataRef != "" && e.CheckDataRef(queue) == nil {
			_ = c.o.DeleteBody(context.WithoutCancel(ctx), e.DataRef) // a failed deletion leaves an orphan
		}
	}
	return nil
}

// Tombstones are the rows of cancelled messages, where the store can't find a message by its key. A worker that has
// taken a delayed message looks for its tombstone. The partition is the queue.
//
// A tombstone outlives its message for a month, because another copy may come. A tombstone whose message never comes is
// kept as long as a message may be delayed.
const (
	tombstones = "cancelled"

	copiesFor = 30 * 24 * time.Hour
	sweep     = 4 // rows that each cancellation and each retirement looks at
)

type tombstone struct {
	At    time.Time `json:"at"`    // when it was cancelled
	Until time.Time `json:"until"` // when the tombstone may go
}

// TombstoneKey is the key of a tombstone: a digest, so that keys are spread evenly.
func TombstoneKey(kind Kind, id string) string {
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// TakesBack reports that a tombstone, as its row has it, is for a message of its key: one that was made before it.
func TakesBack(data []byte, e *Envelope) bool {
	var t tombstone
	return json.Unmarshal(data, &t) == nil && !e.Time.After(t.At)
}

func (c Cancellations) putTombstone(ctx context.Context, queue string, kind Kind, id string) error {
	now := time.Now()
	key := TombstoneKey(kind, id)
	err := c.writeTombstone(ctx, queue, key, tombstone{At: now, Until: now.Add(MaxDelay + copiesFor)}, storage.Condition{})
	if err == nil {
		c.sweepAfter(ctx, queue, key, now)
	}
	return err
}

func (c Cancellations) writeTombstone(ctx context.Context, queue, key string, t tombstone, cond storage.Condition) error {
	data, err := json.Marshal(t)
	if err == nil {
		_, err = c.o.store.Table(tombstones).Put(ctx, queue, key, data, cond)
	}
	return err
}

// MayConcern reports that a message must be asked about before it is handled: [Cancellations.Of] makes a request.
func (c Cancellations) MayConcern(e *Envelope) bool { return !e.Due.IsZero() && !c.o.store.Finds() }

// A Tombstone is that of a message that has come.
type Tombstone struct {
	key  string
	etag storage.ETag
	tombstone
}

// Of looks for the tombstone of a message that was delivered so often. It returns nil if there is none, or if
// the tombstone isn't for this message:
//
//   - A message that was made after the cancellation is another one with the same ID.
//   - A message that a handler may have had stays, because it may be applied already, and its events not sent yet.
func (c Cancellations) Of(ctx context.Context, queue string, e *Envelope, deliveries int) (*Tombstone, error) {
	if !c.MayConcern(e) {
		return nil, nil
	}
	key := TombstoneKey(e.Kind, e.ID)
	row, err := c.o.store.Table(tombstones).Get(ctx, queue, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("channel: look whether a message is cancelled: %w", err)
	}
	var t tombstone
	if err := json.Unmarshal(row.Data, &t); err != nil {
		return nil, nil // another program wrote it
	}
	inTime := !e.started() && t.At.Before(e.Due.Add(-clocksApart))
	found := &Tombstone{key, row.ETag, t}
	switch {
	case e.Time.After(t.At): // the message that the tombstone is for may still come
		return nil, nil
	case !inTime && deliveries-1 > e.Hops:
		c.Retire(ctx, queue, e, found)
		return nil, nil
	}
	return found, nil
}

// Retire notes that the message of a tombstone has come: it was deleted, or it stays. Retire removes some tombstones
// whose time is over. Failures leave rows.
func (c Cancellations) Retire(ctx context.Context, queue string, e *Envelope, t *Tombstone) {
	now := time.Now()
	until := now
	if e.Due.After(now) {
		until = e.Due
	}
	if until = until.Add(copiesFor); !until.Before(t.Until) {
		return // it is retired already
	}
	_ = c.writeTombstone(ctx, queue, t.key, tombstone{At: t.At, Until: until}, storage.Condition{IfMatch: t.etag})
	c.sweepAfter(ctx, queue, t.key, now)
}

// sweepAfter removes those of the next tombstones whose time is over.
func (c Cancellations) sweepAfter(ctx context.Context, queue, key string, now time.Time) {
	table := c.o.store.Table(tombstones)
	for row, err := range table.Query(ctx, queue, storage.RowRange{From: key + "\x00", Limit: sweep}) {
		if err != nil {
			return
		}
		var t tombstone
		if json.Unmarshal(row.Data, &t) == nil && t.Until.Before(now) {
			_ = table.Delete(ctx, queue, row.Key, storage.Condition{IfMatch: row.ETag})
		}
	}
}
