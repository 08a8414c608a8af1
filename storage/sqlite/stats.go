package sqlite

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// maxCounted bounds how many ready messages Stats counts, and how many hidden ones. To count so many takes some tens
// of milliseconds, beside the writer.
const maxCounted = 100_000

func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	q.s.count("stats", "queue", q.name)
	var st driver.Stats
	err := q.s.readers.do(ctx, func(c *conn) (err error) {
		st, err = q.countUpTo(c, time.Now(), maxCounted)
		return err
	})
	if err != nil {
		return driver.Stats{}, kinded(err)
	}
	return st, nil
}

// countUpTo reads the queue's places, not the messages: up to most ready ones and up to most hidden ones. It is one
// statement, so it sees one state.
func (q *queue) countUpTo(c *conn, now time.Time, most int64) (st driver.Stats, err error) {
	id, err := q.s.names.lookup(c, nameKey{kindQueue, q.name})
	if err != nil || id == 0 {
		return st, err
	}
	s := c.stmt(`SELECT ready.n, ready.oldest, hidden.n, hidden.held FROM
		(SELECT count(*) AS n, min(sent) AS oldest FROM
			(SELECT sent FROM due WHERE queue = ?1 AND visible <= ?2 ORDER BY visible LIMIT ?3)) AS ready,
		(SELECT count(*) AS n, sum(held) AS held FROM
			(SELECT held FROM due WHERE queue = ?1 AND visible > ?2 ORDER BY visible LIMIT ?3)) AS hidden`).
		int(1, id).int(2, q.s.clock.at(now)).int(3, most)
	if row, err := s.step(); !row {
		return st, err
	}
	defer s.reset()
	st.Ready, st.InFlight = s.colInt(0), s.colInt(3)
	st.Delayed = s.colInt(2) - st.InFlight
	if st.Ready > 0 {
		st.Oldest = max(0, now.Sub(time.UnixMicro(s.colInt(1))))
	}
	return st, nil
}
