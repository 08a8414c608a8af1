package values

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// The writers of a document delete its rows past retention:
//
//   - No verdict depends on it. A message whose row may be gone is too old to be judged, row or no row. So a deletion
//     may fail, be lost in a crash, be done twice, or never come.
//   - No row within retention is deleted, whatever the clocks say: rows are kept for clockMargin longer.
//   - The row of an idempotency key is past retention after twice that time. Only then is every message too old whose
//     time is within one retention of the row's. A second row, in the order of time, leads there. It is written before
//     the key's row and deleted after it.
//   - The present is this machine's, but never later than the newest message of the record. So a clock that is ahead on
//     this machine alone deletes nothing that others rely on.
//   - It comes after the commit. So it gives other writers no more time to win the race, and keeps no message in
//     flight.
//   - It comes once in forgetEvery versions of the document. The document counts them, so it makes no difference which
//     process writes: many processes, or one that lives for a single message.
//   - It deletes up to twice as many rows as have left since the time before, so a backlog shrinks. A document in use
//     has some hundred rows past retention at most, unless deletions keep failing.
//   - It ends with the caller's context, and after forgetWithin. The rest is left to the next time.
const (
	clockMargin  = 24 * time.Hour // rows are kept so much longer than they are trusted, because clocks differ
	forgetEvery  = storage.MaxBatchRows
	forgetWithin = 5 * time.Second
)

// due returns how many rows may be deleted after a write that added so many versions to the document, and the present
// by which they are old.
func (d *document[V]) due(versions int, now time.Time) (limit int, present time.Time) {
	if !d.record.left || d.version/forgetEvery == (d.version-uint64(versions))/forgetEvery {
		return 0, now
	}
	var newest int64
	for b := d.record.packed; len(b) >= entrySize; b = b[entrySize:] {
		newest = max(newest, unpack(b[:entrySize]).time)
	}
	if present = time.UnixMilli(newest); present.After(now) {
		present = now
	}
	return 2 * max(versions, forgetEvery), present
}

// forgetRows deletes up to limit rows that are past retention, the oldest first.
func (c *Collection[V]) forgetRows(ctx context.Context, key string, now time.Time, limit int) {
	if limit == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	before := timeKey(max(0, now.Add(-c.cfg.Retention-clockMargin).UnixMilli()))
	var old, keyed []string
	for row, err := range c.rows.Query(ctx, key, storage.RowRange{To: before, Limit: limit}) {
		if err != nil {
			return
		}
		old = append(old, row.Key)
		if ends, ok := endOf(row.Key); ok {
			keyed = append(keyed, ends)
		}
	}
	if c.rows.DeleteRows(ctx, key, keyed) == nil { // first, or a crash would leave some for ever
		_ = c.rows.DeleteRows(ctx, key, old)
	}
}
