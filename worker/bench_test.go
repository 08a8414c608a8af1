package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// The benchmarks run on SQLite with full durability. A payload is about 200 bytes of JSON.

type noop struct {
	N       int    `json:"n"`
	Payload string `json:"payload"`
}

func (noop) Kind() channel.Kind { return "bench.noop.v1" }

var payload = fmt.Sprintf("%0180d", 7)

// noops is a world with one reaction that only counts.
type noops struct {
	world
	send *channel.Sender[noop]
	done atomic.Int64
	call func()
}

func newNoops(b *testing.B) *noops {
	b.Helper()
	return newNoopsOn(b, worldtest.OpenStore(b, ""))
}

func newNoopsOn(b testing.TB, store *storage.Store) *noops {
	b.Helper()
	w := &noops{world: world{World: worldtest.NewBare(b, store, handlers.Config{}, channel.Command[noop]("noops"))}, call: func() {}}
	w.send = worldtest.SenderOf[noop](b, w.Channels)
	handlers.React(w.Registry, "noops", func(context.Context, noop) error { w.done.Add(1); w.call(); return nil })
	return w
}

// senders sends n messages from several goroutines, at most ahead messages more than have been handled; 0 is no bound.
func (w *noops) senders(b *testing.B, goroutines, n, ahead int, begin func()) {
	b.Helper()
	handled := make(chan struct{}, max(ahead, 1))
	if ahead > 0 {
		w.call = func() { <-handled }
	}
	begin()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				if ahead > 0 {
					handled <- struct{}{}
				}
				if err := w.send.Send(b.Context(), noop{N: int(i), Payload: payload}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func rate(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkSend(b *testing.B) {
	for _, g := range []int{1, 16} {
		b.Run(fmt.Sprintf("senders=%d", g), func(b *testing.B) {
			w := newNoops(b)
			b.ReportAllocs()
			w.senders(b, g, b.N, 0, b.ResetTimer)
			rate(b, b.N)
		})
	}
}

func BenchmarkDrain(b *testing.B) {
	w := newNoops(b)
	for sent := 0; sent < b.N; {
		batch := make([]noop, min(1000, b.N-sent))
		for i := range batch {
			batch[i] = noop{N: sent + i, Payload: payload}
		}
		if err := w.send.Send(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
		sent += len(batch)
	}
	b.ReportAllocs()
	b.ResetTimer()
	stop := w.Start(worker.Config{})
	worldtest.Eventually(b, func() error {
		if n := w.done.Load(); n < int64(b.N) {
			return fmt.Errorf("%d of %d", n, b.N)
		}
		return nil
	})
	if err := stop(); err != nil { // the last deletions are part of it
		b.Fatal(err)
	}
	rate(b, b.N)
}

func BenchmarkSendAndHandle(b *testing.B) {
	w := newNoops(b)
	b.ReportAllocs()
	var stop func() error
	w.senders(b, 16, b.N, 2000, func() {
		stop = w.Start(worker.Config{})
		b.ResetTimer()
	})
	w.WaitUntilIdle()
	rate(b, b.N)
	if err := stop(); err != nil {
		b.Fatal(err)
	}
}

const accounts = 365

func addNote(i int) Add {
	return Add{To: fmt.Sprintf("date-%d", i%accounts), Amount: 1, Note: payload}
}

// folded waits until the events of all commands are in the view. Then it stops the worker, to include the last
// deletions.
func folded(b *testing.B, w *world, stop func() error) {
	b.Helper()
	worldtest.Eventually(b, func() error {
		if n := w.folded.Load(); n < int64(b.N) {
			return fmt.Errorf("%d of %d", n, b.N)
		}
		return nil
	})
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	rate(b, b.N)
}

// BenchmarkFullPath sends commands, decides them on value objects, and folds their events into views.
func BenchmarkFullPath(b *testing.B) {
	w := newWorld(b, worldtest.OpenStore(b, ""), "totals")
	commands := worldtest.SenderOf[Add](b, w.Channels)
	stop := w.Start(worker.Config{})
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := commands.Send(b.Context(), addNote(int(i))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	folded(b, w, stop)
}

// BenchmarkFullDrain does the same with commands that wait when the worker starts.
func BenchmarkFullDrain(b *testing.B) {
	w := newWorld(b, worldtest.OpenStore(b, ""), "totals")
	for sent := 0; sent < b.N; {
		batch := make([]Add, min(1000, b.N-sent))
		for i := range batch {
			batch[i] = addNote(sent + i)
		}
		worldtest.Send(w.World, batch...)
		sent += len(batch)
	}
	b.ReportAllocs()
	b.ResetTimer()
	folded(b, w, w.Start(worker.Config{}))
}
