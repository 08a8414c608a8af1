// Package raw is what the framework is held against: the least that the same work takes of SQLite, and of the disk. It is in a
// module of its own, so that none of the measuring becomes a dependency.
package raw

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"
)

// A Queue is Millrace's table of messages, with the same statements, by database/sql and one goroutine that commits what waits in
// groups, fully durable, and nothing else: no leases that are renewed, no retries, no second process, no poison, no envelope.
type Queue struct {
	db    *sql.DB
	c     *sql.Conn
	ops   chan *op
	ring  chan struct{}
	ended chan struct{}
	calls atomic.Int64

	insert, find, claim, count, delete *sql.Stmt
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
		`CREATE TABLE messages (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, visible INTEGER NOT NULL, held INTEGER NOT NULL, gen INTEGER NOT NULL,
			sent INTEGER NOT NULL, deliveries INTEGER NOT NULL, body BLOB NOT NULL) STRICT`,
		`CREATE INDEX messages_due ON messages (queue, visible, held, sent)`,
	} {
		if _, err := q.c.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&q.insert, `INSERT INTO messages (queue, visible, held, gen, sent, deliveries, body) VALUES (1, ?1, 0, ?3, ?1, 0, ?2)`},
		{&q.find, `SELECT id, body FROM messages WHERE queue = 1 AND visible <= ?1 ORDER BY visible LIMIT ?2`},
		{&q.claim, `UPDATE messages SET visible = ?3, held = 1, gen = ?4, deliveries = deliveries + 1 WHERE id BETWEEN ?1 AND ?2`},
		{&q.count, `SELECT count(*) FROM messages WHERE id BETWEEN ?1 AND ?2 AND gen = ?3 AND +queue = 1`},
		{&q.delete, `DELETE FROM messages WHERE id BETWEEN ?1 AND ?2`},
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

// Calls is how many operations the queue has been asked for.
func (q *Queue) Calls() int64 { return q.calls.Load() }

func (q *Queue) do(run func() error) error {
	q.calls.Add(1)
	o := &op{run: run, done: make(chan error, 1)}
	q.ops <- o
	return <-o.done
}

// Send puts messages into the queue, in one commit. It returns when they are durable.
func (q *Queue) Send(bodies ...[]byte) error {
	err := q.do(func() error {
		now := time.Now().UnixMicro()
		for _, body := range bodies {
			if _, err := q.insert.Exec(now, body, firstGen); err != nil {
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

// firstGen is large, so that all generations take eight bytes in a row.
const firstGen = 1 << 61

type batch struct {
	gen    int64
	runs   []run
	bodies [][]byte
}

// run are messages with neighbouring ids.
type run struct{ first, last int64 }

// Consume claims, handles and deletes messages until ctx ends or something fails. The deletes of one batch go beside the
// claim of the next.
func (q *Queue) Consume(ctx context.Context, handle func(body []byte) error) error {
	const most, atOnce = 512, 16
	slots, failed := make(chan struct{}, atOnce), make(chan error, 1)
	defer func() {
		for range atOnce {
			slots <- struct{}{} // until the last has ended
		}
	}()
	for gen := int64(firstGen + 1); ; gen++ {
		b := batch{gen: gen}
		if err := q.do(func() error { return q.take(&b, most) }); err != nil {
			return err
		}
		next, ring := slots, q.ring
		if len(b.runs) == 0 {
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

func (q *Queue) take(b *batch, most int) error {
	now := time.Now()
	rows, err := q.find.Query(now.UnixMicro(), most)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		var body []byte
		if err := rows.Scan(&id, &body); err != nil {
			return err
		}
		if n := len(b.runs); n > 0 && b.runs[n-1].last == id-1 {
			b.runs[n-1].last = id
		} else {
			b.runs = append(b.runs, run{id, id})
		}
		b.bodies = append(b.bodies, body)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, r := range b.runs {
		if _, err := q.claim.Exec(r.first, r.last, now.Add(time.Minute).UnixMicro(), b.gen); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) finish(b batch, handle func(body []byte) error) error {
	for _, body := range b.bodies {
		if err := handle(body); err != nil {
			return err
		}
	}
	return q.do(func() error {
		for _, r := range b.runs {
			var n int64
			if err := q.count.QueryRow(r.first, r.last, b.gen).Scan(&n); err != nil {
				return err
			}
			if n != r.last-r.first+1 {
				return errors.New("somebody else has a message")
			}
			if _, err := q.delete.Exec(r.first, r.last); err != nil {
				return err
			}
		}
		return nil
	})
}
