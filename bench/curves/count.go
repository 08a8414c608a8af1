package main

import (
	"bytes"
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A counted store counts what units of work write, and the races that they lose; requests the driver counts by itself.
type counted struct {
	storage.Store
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
	Requests int64 `json:"requests"` // to the engine, but for those that only look how it stands
	Reads    int64 `json:"reads"`    // point reads of rows among them
	Rewrites int64 `json:"rewrites"` // messages handed back, likewise
	File     int64 `json:"file"`     // bytes that the process has given to write calls
}

func (a counts) minus(b counts) counts {
	return counts{a.Writes - b.Writes, a.Bytes - b.Bytes, a.Lost - b.Lost, a.Rows - b.Rows, a.Requests - b.Requests, a.Reads - b.Reads, a.Rewrites - b.Rewrites, a.File - b.File}
}

func (a counts) plus(b counts) counts { return a.minus(counts{}.minus(b)) }

func (s *counted) Unwrap() storage.Store { return s.Store }

// Commit does a unit of work as the store does it, atomic or not.
func (s *counted) Commit(ctx context.Context, w storage.Work) (storage.Committed, error) {
	done, err := storage.Commit(ctx, s.Store, w)
	switch {
	case err == nil && w.Write != nil:
		if w.Rows != nil {
			s.rows.Add(int64(len(w.Rows.Puts)))
		}
		s.writes.Add(1)
		s.bytes.Add(int64(len(w.Write.Body)))
	case storage.LostRace(err):
		s.lost.Add(1)
	}
	if err == nil && len(w.Delete) > 0 {
		s.done.Add(int64(len(w.Delete)))
		if s.committed != nil {
			s.committed()
		}
	}
	return done, err
}

func (s *counted) Table(name string) storage.Table { return countedTable{s.Store.Table(name), s} }

type countedTable struct {
	storage.Table
	s *counted
}

// PutBatch writes rows as the table can.
func (t countedTable) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	t.s.rows.Add(int64(len(rows)))
	return storage.PutRows(ctx, t.Table, partition, rows)
}

// DeleteBatch deletes rows as the table can.
func (t countedTable) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	return storage.DeleteRows(ctx, t.Table, partition, keys)
}

func (s *counted) counts() counts {
	c := counts{Writes: s.writes.Load(), Bytes: s.bytes.Load(), Lost: s.lost.Load(), Rows: s.rows.Load(), File: written()}
	if m, ok := storage.As[storage.Meter](s.Store); ok {
		for _, r := range m.Requests() {
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
	}
	return c
}

// written tells what this process has given to write calls, in bytes; 0 where the system doesn't tell.
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

// rate is how often something happened a second.
func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
