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

// recorded is a store of which a recorder notes what has taken effect.
type recorded struct {
	driver.Store
	r *recorder
}

// record wraps a store.
func record(s *storage.Store) (*storage.Store, *recorder) {
	r := &recorder{
		byID: map[sentKey]*sent{}, timers: map[string][]*wire.Envelope{}, bodies: map[string][]byte{},
		docs: map[docPlace]*history{}, folded: map[[32]byte][]wire.Folded{}, undone: newCancellations(),
	}
	return storage.New(recorded{s.Driver(), r}), r
}

func (s recorded) Committer() driver.Committer {
	c := s.Store.Committer()
	if c == nil {
		return nil
	}
	return recordedCommitter{s.r, c}
}

func (s recorded) Finder() driver.Finder {
	f := s.Store.Finder()
	if f == nil {
		return nil
	}
	return recordedFinder{s.r, f}
}

func (s recorded) Queue(name string) driver.Queue {
	return recordedQueue{s.Store.Queue(name), s.r, name}
}

func (s recorded) Blobs(name string) driver.Blobs {
	return recordedBlobs{s.Store.Blobs(name), s.r, name}
}

func (s recorded) Table(name string) driver.Table {
	t := s.Store.Table(name)
	if name != tombstones {
		return t
	}
	return recordedTombstones{t, s.r}
}

type recordedCommitter struct {
	r *recorder
	c driver.Committer
}

func (c recordedCommitter) Commit(ctx context.Context, w storage.Work) (storage.Committed, error) {
	done, err := c.c.Commit(ctx, w)
	if err != nil {
		return done, err
	}
	for _, s := range w.Send {
		c.r.noteSent(s.Queue, s.Message)
	}
	if w.Write != nil {
		c.r.noteWritten(w.Write.Container, w.Write.Key, w.Write.Body)
	}
	return done, nil
}

type recordedQueue struct {
	driver.Queue
	r    *recorder
	name string
}

func (q recordedQueue) Send(ctx context.Context, messages []storage.Message) error {
	err := q.Queue.Send(ctx, messages)
	if err == nil {
		for _, m := range messages {
			q.r.noteSent(q.name, m)
		}
	}
	return err
}

// Receive notes also what was sent with an unknown outcome.
func (q recordedQueue) Receive(ctx context.Context, max int, visibility time.Duration) ([]storage.Delivery, error) {
	ds, err := q.Queue.Receive(ctx, max, visibility)
	for _, d := range ds {
		q.r.noteReceived(q.name, d)
	}
	return ds, err
}

type recordedBlobs struct {
	driver.Blobs
	r    *recorder
	name string
}

func (b recordedBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	if b.name == claims {
		b.r.noteBody(key, body)
	}
	etag, err := b.Blobs.Put(ctx, key, body, cond)
	if err == nil && b.name != claims {
		b.r.noteWritten(b.name, key, body)
	}
	return etag, err
}

func (b recordedBlobs) Delete(ctx context.Context, key string, cond storage.Condition) error {
	err := b.Blobs.Delete(ctx, key, cond)
	if err == nil && b.name != claims {
		b.r.noteRemoved(b.name, key)
	}
	return err
}

type recordedFinder struct {
	r *recorder
	f driver.Finder
}

func (f recordedFinder) Find(ctx context.Context, queue, key string) ([]storage.Delivery, error) {
	ds, err := f.f.Find(ctx, queue, key)
	for _, d := range ds {
		f.r.noteFound(queue, d)
	}
	return ds, err
}

func (q recordedQueue) Extend(ctx context.Context, receipt storage.Receipt, visibility time.Duration) (storage.Receipt, error) {
	next, err := q.Queue.Extend(ctx, receipt, visibility)
	if err == nil {
		q.r.undone.wasExtended(claim{q.name, receipt}, claim{q.name, next})
	}
	return next, err
}

func (q recordedQueue) Delete(ctx context.Context, receipts []storage.Receipt) error {
	err := q.Queue.Delete(ctx, receipts)
	var stale *storage.StaleError
	if err != nil && !errors.As(err, &stale) {
		return err
	}
	for _, receipt := range receipts {
		if stale == nil || !slices.Contains(stale.Receipts, receipt) {
			q.r.noteDeleted(claim{q.name, receipt})
		}
	}
	return err
}

type recordedTombstones struct {
	driver.Table
	r *recorder
}

func (t recordedTombstones) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	etag, err := t.Table.Put(ctx, partition, key, data, cond)
	if err == nil {
		t.r.undone.wasBuried(tombstoneKey{partition, key}, data)
	}
	return etag, err
}
