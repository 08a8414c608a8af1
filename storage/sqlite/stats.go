package sqlite

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	q.s.count("stats", "queue", q.name)
	var st driver.Stats
	err := q.s.readers.do(ctx, func(c *conn) (err error) {
		st, err = q.count(c)
		return err
	})
	if err != nil {
		return driver.Stats{}, kinded(err)
	}
	return st, nil
}

// Up to so many rows are simply read; beyond, count looks for a shorter way.
const (
	fewIndexed = 10_000 // places, a millisecond
	fewStored  = 1_000  // messages, without the parts of bodies on other pages
)

// count reads the queue's places, not the messages.
func (q *queue) count(c *conn) (driver.Stats, error) {
	return q.countBy(c, time.Now(), fewIndexed, fewStored)
}

func (q *queue) countBy(c *conn, now time.Time, indexed, stored int64) (st driver.Stats, err error) {
	id, err := q.s.names.lookup(c, nameKey{kindQueue, q.name})
	if err != nil || id == 0 {
		return st, err
	}
	if err := c.exec("BEGIN"); err != nil { // all that follows sees one state
		return st, err
	}
	defer c.exec("ROLLBACK")
	at := q.s.clock.at(now)
	hidden, err := firstRow(c.stmt(`SELECT count(*), sum(held) FROM due WHERE queue = ?1 AND visible > ?2`).int(1, id).int(2, at))
	if err != nil {
		return st, err
	}
	st.InFlight, st.Delayed = hidden[1], hidden[0]-hidden[1]
	ready, err := firstRow(c.stmt(`SELECT count(*), min(sent), min(id)
		FROM (SELECT sent, id FROM due WHERE queue = ?1 AND visible <= ?2 ORDER BY visible LIMIT ?3)`).int(1, id).int(2, at).int(3, indexed))
	if err != nil {
		return st, err
	}
	oldest := ready[1]
	if st.Ready = ready[0]; st.Ready == indexed {
		if st.Ready, err = q.countReady(c, id, at, hidden[0], indexed); err != nil {
			return st, err
		}
		if oldest, err = q.oldestReady(c, id, at, ready[1], ready[2], stored); err != nil {
			return st, err
		}
	}
	if st.Ready > 0 {
		st.Oldest = max(0, now.Sub(time.UnixMicro(oldest)))
	}
	return st, nil
}

// countReady counts a deep queue. SQLite counts all messages of the file in a sixth of the time that it takes to step
// through those of a queue. So where other queues have few messages, countReady subtracts them from the count of all.
func (q *queue) countReady(c *conn, id, at, hidden, indexed int64) (int64, error) {
	others, err := firstRow(c.stmt(`SELECT (SELECT count(*) FROM (SELECT 1 FROM due WHERE queue < ?1 LIMIT ?2)),
		(SELECT count(*) FROM (SELECT 1 FROM due WHERE queue > ?1 LIMIT ?2))`).int(1, id).int(2, indexed))
	if err != nil {
		return 0, err
	}
	if max(others[0], others[1]) < indexed {
		all, err := firstRow(c.stmt(`SELECT count(*) FROM due`))
		return all[0] - others[0] - others[1] - hidden, err
	}
	ready, err := firstRow(c.stmt(`SELECT count(*) FROM due WHERE queue = ?1 AND visible <= ?2`).int(1, id).int(2, at))
	return ready[0], err
}

// oldestReady tells when the oldest ready message of a deep queue was sent. sent and least are the earliest time and
// the least id of some of its ready messages. A message gets an id above all ids that are there, so a message that
// was sent earlier has an id below least. There are few such as a rule, because the oldest messages become visible
// first.
func (q *queue) oldestReady(c *conn, id, at, sent, least, stored int64) (int64, error) {
	older, err := firstRow(c.stmt(`SELECT count(*), min(iif(queue = ?1 AND id NOT IN (SELECT id FROM due WHERE queue = ?1 AND visible > ?2 AND id < ?4), sent, ?3))
		FROM (SELECT id, queue, sent FROM messages WHERE id < ?4 LIMIT ?5)`).int(1, id).int(2, at).int(3, sent).int(4, least).int(5, stored))
	switch {
	case err != nil:
		return 0, err
	case older[0] == 0:
		return sent, nil
	case older[0] < stored:
		return min(sent, older[1]), nil
	}
	all, err := firstRow(c.stmt(`SELECT min(sent) FROM due WHERE queue = ?1 AND visible <= ?2`).int(1, id).int(2, at))
	return all[0], err
}

// firstRow returns the columns of a statement's only row, at most three; NULL is 0.
func firstRow(s *stmt) (cols [3]int64, err error) {
	row, err := s.step()
	if !row {
		return cols, err
	}
	defer s.reset()
	for i := range s.cols() {
		cols[i] = s.colInt(i)
	}
	return cols, nil
}
