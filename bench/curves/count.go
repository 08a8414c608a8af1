package main

import (
	"bytes"
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// A counted store counts the writes of units of work, and the races that they lose. The driver itself counts
// requests.
type counted struct {
	driver.Store
	writes, bytes, lost, rows atomic.Int64
	done                      atomic.Int64 // deliveries ended by units of work
	committed                 func()       // called after a unit of work; may be nil
}

// counts are a counted store's numbers at some moment.
type counts struct {
	Writes   int64 `json:"writes"`   // documents written
	Bytes    int64 `json:"bytes"`    // of these documents
	Lost     int64 `json:"lost"`     // races lost
	Rows     int64 `json:"rows"`     // rows written
	Requests int64 `json:"requests"` // to the engine, except requests that only read its state
	Reads    int64 `json:"reads"`    // point reads of rows among them
	Rewrites int64 `json:"rewrites"` // messages handed back, among the requests
	File     int64 `json:"file"`     // bytes that the process has given to write calls
}

func (a counts) minus(b counts) counts {
	return counts{a.Writes - b.Writes, a.Bytes - b.Bytes, a.Lost - b.Lost, a.Rows - b.Rows, a.Requests - b.Requests, a.Reads - b.Reads, a.Rewrites - b.Rewrites, a.File - b.File}
}

func (a counts) plus(b counts) counts { return a.minus(counts{}.minus(b)) }

// Committer counts the results of units of work, where the driver does them atomically.
func (s *counted) Committer() driver.Committer {
	if inner := s.Store.Committer(); inner != nil {
		return countedCommitter{inner, s}
	}
	return nil
}

type countedCommitter struct {
	driver.Committer
	s *counted
}

func (c countedCommitter) Commit(ctx context.Context, w driver.Work) (driver.Committed, error) {
	done, err := c.Committer.Commit(ctx, w)
	if w.Write != nil {
		c.s.wrote(len(w.Write.Body), err)
	}
	if err == nil {
		if w.Rows != nil {
			c.s.rows.Add(int64(len(w.Rows.Puts)))
		}
		c.s.ended(len(w.Delete))
	}
	return done, err
}

// wrote counts the write of a document.
func (s *counted) wrote(n int, err error) {
	switch {
	case err == nil:
		s.writes.Add(1)
		s.bytes.Add(int64(n))
	case storage.LostRace(err):
		s.lost.Add(1)
	}
}

// ended counts deliveries that ended.
func (s *counted) ended(n int) {
	if n == 0 {
		return
	}
	s.done.Add(int64(n))
	if s.committed != nil {
		s.committed()
	}
}

func (s *counted) Queue(name string) driver.Queue { return countedQueue{s.Store.Queue(name), s} }
func (s *counted) Blobs(container string) driver.Blobs {
	return countedBlobs{s.Store.Blobs(container), s}
}
func (s *counted) Table(name string) driver.Table { return countedTable{s.Store.Table(name), s} }

type countedQueue struct {
	driver.Queue
	s *counted
}

func (q countedQueue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	err := q.Queue.Delete(ctx, receipts)
	if err == nil {
		q.s.ended(len(receipts))
	}
	return err
}

type countedBlobs struct {
	driver.Blobs
	s *counted
}

func (b countedBlobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	etag, err := b.Blobs.Put(ctx, key, body, cond)
	b.s.wrote(len(body), err)
	return etag, err
}

type countedTable struct {
	driver.Table
	s *counted
}

func (t countedTable) PutBatch(ctx context.Context, partition string, rows []driver.RowPut) error {
	t.s.rows.Add(int64(len(rows)))
	return t.Table.PutBatch(ctx, partition, rows)
}

func (s *counted) counts() counts {
	c := counts{Writes: s.writes.Load(), Bytes: s.bytes.Load(), Lost: s.lost.Load(), Rows: s.rows.Load(), File: written()}
	for _, r := range s.Requests() {
		switch r.Kind + " " + r.Op {
		case "queue stats", "queue peek":
			continue
		case "table get":
			c.Reads += r.Count
		case "queue rewrite":
			c.Rewrites += r.Count
		}
		c.Requests += r.Count
	}
	return c
}

// written returns how many bytes this process has given to write calls; 0 where the system doesn't tell.
func written() (n int64) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("wchar: "))
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// per is a ratio of counts.
func per[N, D int | int64](n N, d D) float64 { return float64(n) / float64(d) }

// rate is n per second.
func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
