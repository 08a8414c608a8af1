package ids_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A mutexCounter is what a program of one process would use.
type mutexCounter struct {
	mu sync.Mutex
	n  int64
}

func (c *mutexCounter) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func benchSequence(b *testing.B) *ids.Sequence {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "test.db")+"?wake=off")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	q := open(b, s, ids.Config{}.AtLeast(1_000_000))
	take(b, q)
	return q
}

func BenchmarkNext(b *testing.B) {
	for what, makeNext := range map[string]func(b *testing.B) func() error{
		"sequence": func(b *testing.B) func() error {
			q := benchSequence(b)
			ctx := b.Context()
			return func() error { _, err := q.Next(ctx); return err }
		},
		"mutex": func(*testing.B) func() error {
			var c mutexCounter
			return func() error { c.next(); return nil }
		},
	} {
		b.Run(what+"/serial", func(b *testing.B) {
			next := makeNext(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := next(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(what+"/parallel", func(b *testing.B) {
			next := makeNext(b)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := next(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkNextAtAMillionASecond reports how long calls take at that rate, the change of ranges included. The cost of
// the clock, and of the machine's other work, is measured beside it.
func BenchmarkNextAtAMillionASecond(b *testing.B) {
	b.Run("sequence", func(b *testing.B) {
		q := benchSequence(b)
		benchPaced(b, func() { take(b, q) })
	})
	b.Run("nothing", func(b *testing.B) { benchPaced(b, func() {}) })
}

func benchPaced(b *testing.B, call func()) {
	took := make([]time.Duration, 0, b.N)
	begin := time.Now()
	for i := range b.N {
		due := begin.Add(time.Duration(i) * time.Microsecond)
		now := time.Now()
		for now.Before(due) {
			now = time.Now()
		}
		call()
		took = append(took, time.Since(now))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*999/1000]), "p99.9-ns")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
}

func BenchmarkFormat(b *testing.B) {
	for b.Loop() {
		if _, err := ids.Parse(ids.Format(1042)); err != nil {
			b.Fatal(err)
		}
	}
}
