// Package bench measures what the framework is held against. It is a module of its own, so that none of that becomes
// a dependency.
package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// BenchmarkRaw is the limit that the SQLite driver and the worker are held against: a queue table written with
// database/sql by one goroutine that commits what waits in groups, fully durable, and nothing else: no
// leases that are renewed, no retries, no second process, no poison, no envelope.
func BenchmarkRaw(b *testing.B) {
	b.Run("send16", func(b *testing.B) {
		q := newRaw(b)
		var left atomic.Int64
		left.Store(int64(b.N))
		b.ResetTimer()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if err := q.do(rawSend()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	b.Run("drain", func(b *testing.B) {
		q := newRaw(b)
		q.fill(b, b.N)
		b.ResetTimer()
		q.consume(b, b.N, nil)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	b.Run("steady", func(b *testing.B) {
		q := newRaw(b)
		var left atomic.Int64
		out := make(chan struct{}, 2000) // producers wait when so many are outstanding
		left.Store(int64(b.N))
		b.ResetTimer()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					out <- struct{}{}
					if err := q.do(rawSend()); err != nil {
						b.Error(err)
						return
					}
					select {
					case q.ring <- struct{}{}:
					default:
					}
				}
			})
		}
		q.consume(b, b.N, out)
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
}

type rawOp struct {
	run  func(q *rawQueue) error
	done chan error
}

type rawQueue struct {
	c                    *sql.Conn
	ops                  chan *rawOp
	ring                 chan struct{}
	insert, take, delete *sql.Stmt
}

func newRaw(b *testing.B) *rawQueue {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16000)&_txlock=immediate")
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	must(err)
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	q := &rawQueue{ops: make(chan *rawOp, 1024), ring: make(chan struct{}, 1)}
	q.c, err = db.Conn(ctx)
	must(err)
	for _, s := range []string{
		`CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT, visible_at INTEGER, enqueued_at INTEGER, attempts INTEGER, receipt INTEGER, payload BLOB) STRICT`,
		`CREATE INDEX due ON jobs (queue, visible_at, id)`,
	} {
		_, err = q.c.ExecContext(ctx, s)
		must(err)
	}
	q.insert, err = q.c.PrepareContext(ctx, `INSERT INTO jobs (queue, visible_at, enqueued_at, attempts, receipt, payload) VALUES ('bench', ?1, ?1, 0, 0, ?2)`)
	must(err)
	q.take, err = q.c.PrepareContext(ctx, `UPDATE jobs SET visible_at = ?1, receipt = ?2, attempts = attempts + 1
		WHERE id IN (SELECT id FROM jobs WHERE queue = 'bench' AND visible_at <= ?3 ORDER BY visible_at, id LIMIT ?4) RETURNING id, attempts, payload`)
	must(err)
	q.delete, err = q.c.PrepareContext(ctx, `DELETE FROM jobs WHERE id = ?1 AND receipt = ?2`)
	must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var group []*rawOp
		for o := range q.ops {
			group = append(group[:0], o)
			for len(q.ops) > 0 {
				group = append(group, <-q.ops)
			}
			_, err := q.c.ExecContext(ctx, "BEGIN IMMEDIATE")
			for _, o := range group {
				if err == nil {
					err = o.run(q)
				}
			}
			if err == nil {
				_, err = q.c.ExecContext(ctx, "COMMIT")
			}
			for _, o := range group {
				o.done <- err
			}
		}
	}()
	b.Cleanup(func() {
		close(q.ops)
		<-ended
		db.Close()
	})
	return q
}

func (q *rawQueue) do(run func(q *rawQueue) error) error {
	o := &rawOp{run: run, done: make(chan error, 1)}
	q.ops <- o
	return <-o.done
}

type rawJob struct {
	N       int    `json:"n"`
	Payload string `json:"payload"`
}

var rawPayload = strings.Repeat("7", 180)

func rawSend() func(*rawQueue) error {
	body, err := json.Marshal(rawJob{7, rawPayload})
	return func(q *rawQueue) error {
		if err != nil {
			return err
		}
		_, err := q.insert.Exec(time.Now().UnixMicro(), body)
		return err
	}
}

func (q *rawQueue) fill(b *testing.B, n int) {
	for n > 0 {
		k := min(n, 500)
		err := q.do(func(q *rawQueue) error {
			for range k {
				if err := rawSend()(q); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		n -= k
	}
}

// consume claims and deletes n messages; the deletes of one batch go beside the claim of the next.
func (q *rawQueue) consume(b *testing.B, n int, out <-chan struct{}) {
	const batch = 128
	var receipt int64
	var all sync.WaitGroup
	for n > 0 {
		receipt++
		var (
			ids    []int64
			bodies [][]byte
		)
		err := q.do(func(q *rawQueue) error {
			now := time.Now()
			rows, err := q.take.Query(now.Add(time.Minute).UnixMicro(), receipt, now.UnixMicro(), batch)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, attempts int64
				var body []byte
				if err := rows.Scan(&id, &attempts, &body); err != nil {
					return err
				}
				bodies = append(bodies, body)
				ids = append(ids, id)
			}
			return rows.Err()
		})
		if err != nil {
			b.Error(err)
			return
		}
		if len(ids) == 0 {
			<-q.ring
			continue
		}
		n -= len(ids)
		mine := receipt
		all.Go(func() {
			for _, body := range bodies {
				var job rawJob
				if err := json.Unmarshal(body, &job); err != nil || job.N != 7 {
					b.Errorf("read %+v, %v", job, err)
				}
			}
			err := q.do(func(q *rawQueue) error {
				for _, id := range ids {
					if _, err := q.delete.Exec(id, mine); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Error(err)
			}
			if out != nil {
				for range ids {
					<-out
				}
			}
		})
	}
	all.Wait()
}
