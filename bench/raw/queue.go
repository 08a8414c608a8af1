// Package raw is the limit that the framework is compared with: the least that the same work takes of SQLite, and of
// the disk. It is in a module of its own, so that no tool of the measurement becomes a dependency.
package raw

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"
)

// A Queue is a table of messages with database/sql and one goroutine that commits waiting writes in groups, fully
// durable. It has nothing else: no renewed leases, no retries, no second process, no poison queue, no envelope.
type Queue struct {
	db    *sql.DB
	c     *sql.Conn
	ops   chan *op
	ring  chan struct{}
	ended chan struct{}
	calls atomic.Int64

	way way
	now int64 // of the transaction, µs
}

// A way is a layout of the queue. Its methods run in a transaction.
type way interface {
	prepare(ctx context.Context, c *sql.Conn) error
	insert(now int64, body []byte) error
	// claim hides messages until a minute from now, and returns how to delete them.
	claim(now int64) (bodies [][]byte, remove func() error, err error)
	// end runs before the commit. Until then a claim may miss inserted messages.
	end() error
}

type op struct {
	run  func() error
	done chan error
}

// Open makes a queue in a new file, with Millrace's own tables and statements, 512 messages at a time, but with one
// insert for each message.
func Open(ctx context.Context, path string) (*Queue, error) { return openWay(ctx, path, &own{}) }

// OpenPrototype makes a queue in a new file with one table and the simplest statements, 128 messages at a time.
func OpenPrototype(ctx context.Context, path string) (*Queue, error) {
	return openWay(ctx, path, &prototype{})
}

func openWay(ctx context.Context, path string, way way) (*Queue, error) {
	db, err := sql.Open("sqlite", "file:"+path+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	q := &Queue{db: db, way: way, ops: make(chan *op, 1024), ring: make(chan struct{}, 1), ended: make(chan struct{})}
	if q.c, err = db.Conn(ctx); err == nil {
		err = way.prepare(ctx, q.c)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	go q.write(context.WithoutCancel(ctx))
	return q, nil
}

// write commits the waiting operations.
func (q *Queue) write(ctx context.Context) {
	defer close(q.ended)
	var group []*op
	for o := range q.ops {
		group = append(group[:0], o)
		for len(q.ops) > 0 {
			group = append(group, <-q.ops)
		}
		_, err := q.c.ExecContext(ctx, "BEGIN IMMEDIATE")
		q.now = time.Now().UnixMicro()
		for _, o := range group {
			if err == nil {
				err = o.run()
			}
		}
		if err == nil {
			err = q.way.end()
		}
		if err == nil {
			_, err = q.c.ExecContext(ctx, "COMMIT")
		}
		if err != nil {
			_, _ = q.c.ExecContext(ctx, "ROLLBACK") // otherwise the next transaction would fail for this one's error
		}
		for _, o := range group {
			o.done <- err
		}
	}
}

// Close waits for operations that have begun. None may begin after it.
func (q *Queue) Close() error {
	close(q.ops)
	<-q.ended
	return q.db.Close()
}

// Calls is how many operations callers have asked of the queue.
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
		for _, body := range bodies {
			if err := q.way.insert(q.now, body); err != nil {
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

// Consume claims, handles and deletes messages until ctx ends or something fails. The deletes of one batch run beside
// the claim of the next.
func (q *Queue) Consume(ctx context.Context, handle func(body []byte) error) error {
	const atOnce = 16
	slots, failed := make(chan struct{}, atOnce), make(chan error, 1)
	defer func() {
		for range atOnce {
			slots <- struct{}{} // waits for the last handlers
		}
	}()
	for {
		var bodies [][]byte
		var remove func() error
		err := q.do(func() (err error) {
			bodies, remove, err = q.way.claim(q.now)
			return err
		})
		if err != nil {
			return err
		}
		next, ring := slots, q.ring
		if len(bodies) == 0 {
			next = nil
		} else {
			ring = nil
		}
		select {
		case next <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				if err := q.finish(bodies, handle, remove); err != nil {
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

func (q *Queue) finish(bodies [][]byte, handle func(body []byte) error, remove func() error) error {
	for _, body := range bodies {
		if err := handle(body); err != nil {
			return err
		}
	}
	return q.do(remove)
}
