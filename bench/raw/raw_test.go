package raw

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type job struct {
	N       int    `json:"n"`
	Payload string `json:"payload"`
}

var payload = strings.Repeat("7", 180)

func body(tb testing.TB) []byte {
	text, err := json.Marshal(job{7, payload})
	if err != nil {
		tb.Error(err)
	}
	return text
}

type opener func(ctx context.Context, path string) (*Queue, error)

func ways() map[string]opener { return map[string]opener{"own": Open, "prototype": OpenPrototype} }

func open(tb testing.TB, way opener) *Queue {
	q, err := way(tb.Context(), filepath.Join(tb.TempDir(), "raw.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := q.Close(); err != nil {
			tb.Error(err)
		}
	})
	return q
}

// consume handles n messages.
func consume(tb testing.TB, q *Queue, n int, out <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var handled atomic.Int64
	err := q.Consume(ctx, func(text []byte) error {
		var j job
		if err := json.Unmarshal(text, &j); err != nil || j.N != 7 {
			return fmt.Errorf("read %+v, %v", j, err)
		}
		if out != nil {
			<-out
		}
		if handled.Add(1) == int64(n) {
			stop()
		}
		return nil
	})
	if err != nil || handled.Load() != int64(n) {
		tb.Fatalf("handled %d of %d: %v", handled.Load(), n, err)
	}
}

func fill(tb testing.TB, q *Queue, n int) {
	text := body(tb)
	for n > 0 {
		bodies := make([][]byte, min(n, 500))
		for i := range bodies {
			bodies[i] = text
		}
		if err := q.Send(bodies...); err != nil {
			tb.Fatal(err)
		}
		n -= len(bodies)
	}
}

// send sends n messages from 16 goroutines.
func send(tb testing.TB, q *Queue, n int, out chan<- struct{}) (wait func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if out != nil {
					out <- struct{}{}
				}
				if err := q.Send(body(tb)); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	return all.Wait
}

func TestEachMessageIsHandledOnce(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			q := open(t, way)
			fill(t, q, 700)
			send(t, q, 300, nil)()
			consume(t, q, 1000, nil)
			for _, table := range []string{"messages", "due", "jobs"} {
				var there, left int
				err := q.do(func() error {
					err := q.c.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", table).Scan(&there)
					if err == nil && there == 1 {
						err = q.c.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&left)
					}
					return err
				})
				if err != nil || left != 0 {
					t.Errorf("%d are left in %s, %v", left, table, err)
				}
			}
		})
	}
}

func TestAHandlersErrorEndsConsuming(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			q := open(t, way)
			fill(t, q, 1)
			want := fmt.Errorf("no")
			if err := q.Consume(t.Context(), func([]byte) error { return want }); err != want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDiskOverwrites(t *testing.T) {
	d, err := OpenDisk(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	for range blocks + 1 {
		if err := d.Overwrite(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := d.file.Stat(); err != nil || info.Size() != block*blocks {
		t.Errorf("%v, %v", info, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkRaw is the limit that the SQLite driver and the worker are held against.
func BenchmarkRaw(b *testing.B) {
	for name, way := range ways() {
		b.Run("send16/way="+name, func(b *testing.B) {
			q := open(b, way)
			b.ResetTimer()
			send(b, q, b.N, nil)()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
		b.Run("drain/way="+name, func(b *testing.B) {
			q := open(b, way)
			fill(b, q, b.N)
			b.ResetTimer()
			consume(b, q, b.N, nil)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
		b.Run("steady/way="+name, func(b *testing.B) {
			q := open(b, way)
			out := make(chan struct{}, 2000) // producers wait when so many are outstanding
			b.ResetTimer()
			wait := send(b, q, b.N, out)
			consume(b, q, b.N, out)
			wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
