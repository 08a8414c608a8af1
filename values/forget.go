package values

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Rows past retention are forgotten by those who write the document:
//
//   - No verdict rests on it. A message whose row may be gone is too old to be judged, row or no row. So a deletion that
//     fails, is lost in a crash, is done twice, or never comes is nobody's error.
//   - No row within retention goes, whatever the clocks say: clockMargin is kept besides.
//   - It comes after the commit: it neither gives others more time to win the race, nor keeps a message in flight.
//   - It comes once in forgetEvery versions of the document. They are counted in the document, so that it makes no difference
//     who writes it: many processes, or one that lives for a single message.
//   - It takes up to twice as many rows as have left since the time before, so a backlog shrinks. A
//     document in use has some hundred rows at most that ought to be gone, unless deletions keep failing.
//   - It ends with the caller's context, and after forgetWithin. What is left then is for the next time.
const (
	clockMargin  = 24 * time.Hour // how much longer rows are kept than they are trusted: clocks differ
	forgetEvery  = storage.MaxBatchRows
	forgetWithin = 5 * time.Second
)

// due tells how many rows may be forgotten after a write that has brought the document so many versions further.
func (d *document[V]) due(versions int) (limit int) {
	if !d.record.left || d.version/forgetEvery == (d.version-uint64(versions))/forgetEvery {
		return 0
	}
	return 2 * max(versions, forgetEvery)
}

// forgetRows deletes up to limit rows that are past retention, the oldest first.
func (c *Collection[V]) forgetRows(ctx context.Context, key string, now time.Time, limit int) {
	if limit == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	before := timeKey(now.Add(-c.cfg.Retention - clockMargin).UnixMilli())
	var old []string
	for row, err := range c.rows.Query(ctx, key, storage.RowRange{To: before, Limit: limit}) {
		if err != nil {
			return
		}
		old = append(old, row.Key)
	}
	_ = c.rows.DeleteRows(ctx, key, old)
}
