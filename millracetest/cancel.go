package millracetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// tombstones is the table of cancelled messages, where the store finds none by its key; see internal/wire.
const tombstones = "cancelled"

// cancellations are what a recorder knows of delayed messages that are taken back. A deletion cancels a message if its
// receipt came from Find, or if a tombstone names the message. Any other deletion of an unhandled message loses it.
type cancellations struct {
	found      map[claim]*sent
	held       map[claim]*sent // received
	tombstones map[tombstoneKey][]byte
}

type claim struct {
	queue   string
	receipt storage.Receipt
}

type tombstoneKey struct{ queue, key string }

func newCancellations() cancellations {
	return cancellations{map[claim]*sent{}, map[claim]*sent{}, map[tombstoneKey][]byte{}}
}

type recordedFinder struct {
	r *recorder
	f driver.Finder
}

func (f recordedFinder) Find(ctx context.Context, queue, key string) ([]storage.Delivery, error) {
	ds, err := f.f.Find(ctx, queue, key)
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for _, d := range ds {
		if x := f.r.message(queue, d.Body); x != nil && d.Receipt != "" {
			f.r.undone.found[claim{queue, d.Receipt}] = x
		}
	}
	return ds, err
}

func (q recordedQueue) Extend(ctx context.Context, receipt storage.Receipt, visibility time.Duration) (storage.Receipt, error) {
	next, err := q.Queue.Extend(ctx, receipt, visibility)
	if err == nil {
		q.r.mu.Lock()
		defer q.r.mu.Unlock()
		if x := q.r.undone.held[claim{q.name, receipt}]; x != nil {
			q.r.undone.held[claim{q.name, next}] = x
		}
	}
	return next, err
}

func (q recordedQueue) Delete(ctx context.Context, receipts []storage.Receipt) error {
	err := q.Queue.Delete(ctx, receipts)
	var stale *storage.StaleError
	if err != nil && !errors.As(err, &stale) {
		return err
	}
	q.r.mu.Lock()
	defer q.r.mu.Unlock()
	for _, receipt := range receipts {
		if stale == nil || !slices.Contains(stale.Receipts, receipt) {
			q.r.noteDeleted(claim{q.name, receipt})
		}
	}
	return err
}

// noteDeleted notes a deletion that cancels a message. r.mu is held.
func (r *recorder) noteDeleted(c claim) {
	x := r.undone.found[c]
	if held := r.undone.held[c]; x == nil && held != nil {
		key := wire.TombstoneKey(held.e.Kind, held.e.ID)
		if data, ok := r.undone.tombstones[tombstoneKey{c.queue, key}]; ok && wire.TakesBack(data, &held.e) {
			x = held
		}
	}
	if x == nil {
		return
	}
	x.cancelled++
	if i := slices.Index(r.timers[c.queue], &x.e); i >= 0 {
		r.timers[c.queue] = slices.Delete(r.timers[c.queue], i, i+1)
	}
}

func (r *recorder) Table(name string) driver.Table {
	t := r.Store.Table(name)
	if name != tombstones {
		return t
	}
	return recordedTombstones{t, r}
}

type recordedTombstones struct {
	driver.Table
	r *recorder
}

func (t recordedTombstones) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	etag, err := t.Table.Put(ctx, partition, key, data, cond)
	if err == nil {
		t.r.mu.Lock()
		defer t.r.mu.Unlock()
		t.r.undone.tombstones[tombstoneKey{partition, key}] = slices.Clone(data)
	}
	return etag, err
}
