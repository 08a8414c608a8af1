package raw

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

var errClaimed = errors.New("somebody else has a message")

// A table has its SQL, and statements that are prepared once.
type table struct {
	create []string
	stmts  map[**sql.Stmt]string
}

func (t table) prepare(ctx context.Context, c *sql.Conn) (err error) {
	for _, s := range t.create {
		if _, err := c.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	for to, text := range t.stmts {
		if *to, err = c.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// own is the layout of package storage/sqlite, but it inserts messages one by one.
type own struct {
	gen                                                     int64
	placed                                                  run // by this transaction, not yet in due
	now                                                     int64
	message, enter, find, move, leave, count, remove, erase *sql.Stmt
}

// firstGen is large, so that a claim takes as many bytes as one with a random generation.
const firstGen = 1 << 61

func (w *own) prepare(ctx context.Context, c *sql.Conn) error {
	w.gen = firstGen
	return table{
		[]string{
			`CREATE TABLE messages (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, sent INTEGER NOT NULL, body BLOB NOT NULL) STRICT`,
			`CREATE TABLE due (queue INTEGER NOT NULL, visible INTEGER NOT NULL, id INTEGER NOT NULL, held INTEGER NOT NULL, gen INTEGER NOT NULL,
				sent INTEGER NOT NULL, deliveries INTEGER NOT NULL, PRIMARY KEY (queue, visible, id)) STRICT, WITHOUT ROWID`,
		},
		map[**sql.Stmt]string{
			&w.message: `INSERT INTO messages (queue, sent, body) VALUES (1, ?1, ?2)`,
			&w.enter:   `INSERT INTO due SELECT 1, ?1, id, 0, 0, ?1, 0 FROM messages WHERE id BETWEEN ?2 AND ?3`,
			&w.find: `SELECT visible, due.id, due.sent, deliveries, body FROM due CROSS JOIN messages USING (id)
				WHERE due.queue = 1 AND visible <= ?1 ORDER BY visible, due.id LIMIT ?2`,
			&w.move:   `INSERT INTO due SELECT queue, ?3, id, 1, ?4, sent, deliveries + 1 FROM due WHERE queue = 1 AND (visible, id) <= (?1, ?2)`,
			&w.leave:  `DELETE FROM due WHERE queue = 1 AND (visible, id) <= (?1, ?2)`,
			&w.count:  `SELECT count(*) FROM due WHERE queue = 1 AND visible = ?1 AND id BETWEEN ?2 AND ?3 AND gen = ?4`,
			&w.remove: `DELETE FROM due WHERE queue = 1 AND visible = ?1 AND id BETWEEN ?2 AND ?3`,
			&w.erase:  `DELETE FROM messages WHERE id BETWEEN ?1 AND ?2`,
		},
	}.prepare(ctx, c)
}

func (w *own) insert(now int64, body []byte) error {
	done, err := w.message.Exec(now, body)
	if err != nil {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	if w.placed.first == 0 || w.placed.last != id-1 {
		if err := w.end(); err != nil {
			return err
		}
		w.placed.first, w.now = id, now
	}
	w.placed.last = id
	return nil
}

// end writes the places of neighbours in one statement. All messages of a transaction have one time.
func (w *own) end() error {
	p := w.placed
	w.placed = run{}
	if p.first == 0 {
		return nil
	}
	_, err := w.enter.Exec(w.now, p.first, p.last)
	return err
}

// run are messages with consecutive ids.
type run struct{ first, last int64 }

func (w *own) claim(now int64) (bodies [][]byte, remove func() error, err error) {
	rows, err := w.find.Query(now, 512)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	var visible, id, sent, deliveries int64
	var runs []run
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&visible, &id, &sent, &deliveries, &body); err != nil {
			return nil, nil, err
		}
		if n := len(runs); n > 0 && runs[n-1].last == id-1 {
			runs[n-1].last = id
		} else {
			runs = append(runs, run{id, id})
		}
		bodies = append(bodies, body)
	}
	if err := rows.Err(); err != nil || len(runs) == 0 {
		return nil, nil, err
	}
	w.gen++
	until, gen := now+time.Minute.Microseconds(), w.gen
	if _, err := w.move.Exec(visible, id, until, gen); err != nil {
		return nil, nil, err
	}
	if _, err := w.leave.Exec(visible, id); err != nil {
		return nil, nil, err
	}
	return bodies, func() error { return w.delete(runs, until, gen) }, nil
}

func (w *own) delete(runs []run, until, gen int64) error {
	for _, r := range runs {
		var n int64
		if err := w.count.QueryRow(until, r.first, r.last, gen).Scan(&n); err != nil {
			return err
		}
		if n != r.last-r.first+1 {
			return errClaimed
		}
		if _, err := w.remove.Exec(until, r.first, r.last); err != nil {
			return err
		}
		if _, err := w.erase.Exec(r.first, r.last); err != nil {
			return err
		}
	}
	return nil
}

// prototype is the simplest layout.
type prototype struct {
	receipt          int64
	add, take, erase *sql.Stmt
}

func (w *prototype) prepare(ctx context.Context, c *sql.Conn) error {
	return table{
		[]string{
			`CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT, visible_at INTEGER, enqueued_at INTEGER, attempts INTEGER, receipt INTEGER, payload BLOB) STRICT`,
			`CREATE INDEX due ON jobs (queue, visible_at, id)`,
		},
		map[**sql.Stmt]string{
			&w.add: `INSERT INTO jobs (queue, visible_at, enqueued_at, attempts, receipt, payload) VALUES ('bench', ?1, ?1, 0, 0, ?2)`,
			&w.take: `UPDATE jobs SET visible_at = ?1, receipt = ?2, attempts = attempts + 1
				WHERE id IN (SELECT id FROM jobs WHERE queue = 'bench' AND visible_at <= ?3 ORDER BY visible_at, id LIMIT ?4) RETURNING id, attempts, payload`,
			&w.erase: `DELETE FROM jobs WHERE id = ?1 AND receipt = ?2`,
		},
	}.prepare(ctx, c)
}

func (w *prototype) end() error { return nil }

func (w *prototype) insert(now int64, body []byte) error {
	_, err := w.add.Exec(now, body)
	return err
}

func (w *prototype) claim(now int64) (bodies [][]byte, remove func() error, err error) {
	w.receipt++
	receipt := w.receipt
	rows, err := w.take.Query(now+time.Minute.Microseconds(), receipt, now, 128)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	var ids []int64
	for rows.Next() {
		var id, attempts int64
		var body []byte
		if err := rows.Scan(&id, &attempts, &body); err != nil {
			return nil, nil, err
		}
		ids, bodies = append(ids, id), append(bodies, body)
	}
	return bodies, func() error {
		for _, id := range ids {
			done, err := w.erase.Exec(id, receipt)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 {
				return errors.Join(err, errClaimed)
			}
		}
		return nil
	}, rows.Err()
}
