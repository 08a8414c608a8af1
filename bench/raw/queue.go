// Package raw is what the framework is held against: the least that the same work takes of SQLite, and of the disk. It is in a
// module of its own, so that none of the measuring becomes a dependency.
package raw

import (
	"context"
	"database/sql"
	"time"

	_ "modernc.org/sqlite"
)

// A Queue is a table written with database/sql by one goroutine that commits what waits in groups, fully durable, and nothing
// else: no leases that are renewed, no retries, no second process, no poison, no envelope.
type Queue struct {
	db                   *sql.DB
	c                    *sql.Conn
	ops                  chan *op
	ring                 chan struct{}
	ended                chan struct{}
	insert, take, delete *sql.Stmt
}

type op struct {
	run  func() error
	done chan error
}

// Open makes a queue in a new file.
func Open(ctx context.Context, path string) (*Queue, error) {
	db, err := sql.Open("sqlite", "file:"+path+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	q := &Queue{db: db, ops: make(chan *op, 1024), ring: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := q.prepare(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	go q.write(context.WithoutCancel(ctx))
	return q, nil
}

func (q *Queue) prepare(ctx context.Context) (err error) {
	if q.c, err = q.db.Conn(ctx); err != nil {
		return err
	}
	for _, s := range []string{
		`CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT, visible_at INTEGER, enqueued_at INTEGER, attempts INTEGER, receipt INTEGER, payload BLOB) STRICT`,
		`CREATE INDEX due ON jobs (queue, visible_at, id)`,
	} {
		if _, err := q.c.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&q.insert, `INSERT INTO jobs (queue, visible_at, enqueued_at, attempts, receipt, payload) VALUES ('bench', ?1, ?1, 0, 0, ?2)`},
		{&q.take, `UPDATE jobs SET visible_at = ?1, receipt = ?2, attempts = attempts + 1
			WHERE id IN (SELECT id FROM jobs WHERE queue = 'bench' AND visible_at <= ?3 ORDER BY visible_at, id LIMIT ?4) RETURNING id, attempts, payload`},
		{&q.delete, `DELETE FROM jobs WHERE id = ?1 AND receipt = ?2`},
	} {
		if *s.stmt, err = q.c.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

// write commits what waits.
func (q *Queue) write(ctx context.Context) {
	defer close(q.ended)
	var group []*op
	for o := range q.ops {
		group = append(group[:0], o)
		for len(q.ops) > 0 {
			group = append(group, <-q.ops)
		}
		_, err := q.c.ExecContext(ctx, "BEGIN IMMEDIATE")
		for _, o := range group {
			if err == nil {
				err = o.run()
			}
		}
		if err == nil {
			_, err = q.c.ExecContext(ctx, "COMMIT")
		}
		for _, o := range group {
			o.done <- err
		}
	}
}

// Close waits for what was begun. Nothing may be begun after it.
func (q *Queue) Close() error {
	close(q.ops)
	<-q.ended
	return q.db.Close()
}

func (q *Queue) do(run func() error) error {
	o := &op{run: run, done: make(chan error, 1)}
	q.ops <- o
	return <-o.done
}

// Send puts messages into the queue, in one commit. It returns when they are durable.
func (q *Queue) Send(bodies ...[]byte) error {
	err := q.do(func() error {
		now := time.Now().UnixMicro()
		for _, body := range bodies {
			if _, err := q.insert.Exec(now, body); err != nil {
				return err
			}
		}
		return nil
	})
	select {
	case q.ring <- struct{}{}:
	default:
	}
	return err
}

type batch struct {
	receipt int64
	ids     []int64
	bodies  [][]byte
}

// Consume claims, handles and deletes messages until ctx ends or something fails. The deletes of one batch go beside the
// claim of the next.
func (q *Queue) Consume(ctx context.Context, handle func(body []byte) error) error {
	const most, atOnce = 128, 16
	slots, failed := make(chan struct{}, atOnce), make(chan error, 1)
	defer func() {
		for range atOnce {
			slots <- struct{}{} // until the last has ended
		}
	}()
	for receipt := int64(1); ; receipt++ {
		b := batch{receipt: receipt}
		if err := q.do(func() error { return q.claim(&b, most) }); err != nil {
			return err
		}
		next, ring := slots, q.ring
		if len(b.ids) == 0 {
			next = nil
		} else {
			ring = nil
		}
		select {
		case next <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				if err := q.finish(b, handle); err != nil {
					select {
					case failed <- err:
					default: // the first one is enough
					}
				}
			}()
		case <-ring:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (q *Queue) claim(b *batch, most int) error {
	now := time.Now()
	rows, err := q.take.Query(now.Add(time.Minute).UnixMicro(), b.receipt, now.UnixMicro(), most)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, attempts int64
		var body []byte
		if err := rows.Scan(&id, &attempts, &body); err != nil {
			return err
		}
		b.ids, b.bodies = append(b.ids, id), append(b.bodies, body)
	}
	return rows.Err()
}

func (q *Queue) finish(b batch, handle func(body []byte) error) error {
	for _, body := range b.bodies {
		if err := handle(body); err != nil {
			return err
		}
	}
	return q.do(func() error {
		for _, id := range b.ids {
			if _, err := q.delete.Exec(id, b.receipt); err != nil {
				return err
			}
		}
		return nil
	})
}
