package sqlite

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// maxCounted bounds how many ready messages Stats counts, and how many hidden ones. To count so many takes some tens
// of milliseconds, beside the writer.
const maxCounted = 100_000

func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	q.s.count("stats", "queue", q.name)
	var st driver.Stats
	err := q.s.db.Read(ctx, func(c *engine.Conn) (err error) {
		st, err = q.countUpTo(c, time.Now(), maxCounted)
		return err
	})
	if err != nil {
		return driver.Stats{}, err
	}
	return st, nil
}

// countUpTo reads the queue's places, not the messages: up to most ready ones and up to most hidden ones. It is one
// statement, so it sees one state.
func (q *queue) countUpTo(c *engine.Conn, now time.Time, most int64) (st driver.Stats, err error) {
	id, err := q.s.names.lookup(c, nameKey{kindQueue, q.name})
	if err != nil || id == 0 {
		return st, err
	}
	s := c.Stmt(`SELECT ready.n, ready.oldest, hidden.n, hidden.held FROM
		(SELECT count(*) AS n, min(sent) AS oldest FROM
			(SELECT sent FROM due WHERE queue = ?1 AND visible <= ?2 ORDER BY visible LIMIT ?3)) AS ready,
		(SELECT count(*) AS n, sum(held) AS held FROM
			(SELECT held FROM due WHERE queue = ?1 AND visible > ?2 ORDER BY visible LIMIT ?3)) AS hidden`).
		Int(1, id).Int(2, q.s.clock.at(now)).Int(3, most)
	if row, err := s.Step(); !row {
		return st, err
	}
	defer s.Reset()
	st.Ready, st.InFlight = s.ColInt(0), s.ColInt(3)
	st.Delayed = s.ColInt(2) - st.InFlight
	if st.Ready > 0 {
		st.Oldest = max(0, now.Sub(time.UnixMicro(s.ColInt(1))))
	}
	return st, nil
}
