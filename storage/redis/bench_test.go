package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// Bodies are as long as a small command's envelope.
var benchBody = make([]byte, 450)

// A bench is a store on a server that nobody else uses.
type bench struct {
	*storage.Store
	server *redistest.Server
	queue  *storage.Queue
	rings  <-chan struct{}
}

func openBench(b *testing.B, always bool) *bench {
	b.Helper()
	server := redistest.Start(b, redistest.Config{Always: always})
	s, err := Open(b.Context(), server.SocketURL(redistest.Fresh()))
	if err != nil {
		b.Fatal(err)
	}
	rings := s.Listen("bench")
	b.Cleanup(func() {
		rings.Close()
		if err := s.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return &bench{s, server, s.Queue("bench"), rings.Rings()}
}

// settings runs a benchmark at both settings of the server.
func settings(b *testing.B, f func(b *testing.B, x *bench)) {
	for _, fsync := range []string{"everysec", "always"} {
		b.Run(fsync, func(b *testing.B) { f(b, openBench(b, fsync == "always")) })
	}
}

// cpu is the processor time that the server has used.
func (x *bench) cpu(b *testing.B) (sum float64) {
	for line := range strings.Lines(x.server.Do(b, "INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}

// measure runs f, which handles so many messages, and reports rate and the server's time for a message.
func (x *bench) measure(b *testing.B, messages int, f func()) {
	b.Helper()
	before := x.cpu(b)
	b.ResetTimer()
	f()
	b.StopTimer()
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric((x.cpu(b)-before)*1e6/float64(messages), "server-us/msg")
}

// spread runs f n times, in so many goroutines, and returns how long each took.
func spread(b *testing.B, n, goroutines int, f func() error) []time.Duration {
	var (
		left atomic.Int64
		all  sync.WaitGroup
		took = make([][]time.Duration, goroutines)
	)
	left.Store(int64(n))
	for i := range goroutines {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	return slices.Concat(took...)
}

func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("senders=%d", n), func(b *testing.B) {
			settings(b, func(b *testing.B, x *bench) {
				one := []storage.Message{{Body: benchBody}}
				x.measure(b, b.N, func() {
					reportTimes(b, spread(b, b.N, n, func() error { return x.queue.Send(b.Context(), one) }))
				})
			})
		})
	}
}

func (x *bench) fill(b *testing.B, n int) {
	b.Helper()
	batch := slices.Repeat([]storage.Message{{Body: benchBody}}, 500)
	for ; n > 0; n -= len(batch) {
		if err := x.queue.Send(b.Context(), batch[:min(n, len(batch))]); err != nil {
			b.Fatal(err)
		}
	}
}

// consume receives and deletes until n messages are gone.
func (x *bench) consume(b *testing.B, n int, received func()) {
	for n > 0 {
		got, err := x.queue.Receive(b.Context(), maxReceive, time.Minute)
		if err != nil {
			b.Error(err)
			return
		}
		if len(got) == 0 {
			<-x.rings
			continue
		}
		receipts := make([]storage.Receipt, len(got))
		for i, d := range got {
			receipts[i] = d.Receipt
			received()
		}
		if err := x.queue.Delete(b.Context(), receipts); err != nil {
			b.Error(err)
			return
		}
		n -= len(got)
	}
}

// BenchmarkDrain is of batches of 20,000 messages, which were sent before.
func BenchmarkDrain(b *testing.B) {
	settings(b, func(b *testing.B, x *bench) {
		const n = 20_000
		x.fill(b, b.N*n)
		x.measure(b, b.N*n, func() { x.consume(b, b.N*n, func() {}) })
	})
}

// BenchmarkBalanced has 16 senders and one consumer that receives in batches and deletes.
func BenchmarkBalanced(b *testing.B) {
	settings(b, func(b *testing.B, x *bench) {
		one := []storage.Message{{Body: benchBody}}
		ahead := make(chan struct{}, 2000)
		x.measure(b, b.N, func() {
			var consumer sync.WaitGroup
			consumer.Go(func() { x.consume(b, b.N, func() { <-ahead }) })
			spread(b, b.N, 16, func() error {
				ahead <- struct{}{}
				return x.queue.Send(b.Context(), one)
			})
			consumer.Wait()
		})
	})
}

// BenchmarkCommit writes a document of 3 KB, sends a message and deletes one, in 16 goroutines.
func BenchmarkCommit(b *testing.B) {
	settings(b, func(b *testing.B, x *bench) {
		x.fill(b, b.N)
		receipts := make(chan storage.Receipt, b.N)
		for len(receipts) < b.N {
			got, err := x.queue.Receive(b.Context(), maxReceive, time.Hour)
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range got {
				receipts <- d.Receipt
			}
		}
		doc, next := make([]byte, 3000), atomic.Int64{}
		x.measure(b, b.N, func() {
			spread(b, b.N, 16, func() error {
				did, err := x.Commit(b.Context(), storage.Work{
					Write:  &storage.Write{Container: "docs", Key: strconv.FormatInt(next.Add(1)%365, 10), Body: doc},
					Send:   []storage.Send{{Queue: "events", Message: storage.Message{Body: benchBody}}},
					Delete: []storage.Claim{{Queue: "bench", Receipt: <-receipts}},
				})
				if err == nil && len(did.Stale) > 0 {
					err = fmt.Errorf("stale: %v", did.Stale)
				}
				return err
			})
		})
	})
}

// BenchmarkLatency measures from the call of Send to the return of the Receive that got the message.
func BenchmarkLatency(b *testing.B) {
	settings(b, func(b *testing.B, x *bench) {
		arrived := make(chan time.Time)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				got, err := x.queue.Receive(ctx, 10, time.Minute)
				at := time.Now()
				if err != nil {
					return
				}
				for _, d := range got {
					arrived <- at
					_ = x.queue.Delete(ctx, []storage.Receipt{d.Receipt}) // fails at the end alone
				}
				if len(got) == 0 {
					select {
					case <-x.rings:
					case <-ctx.Done():
					}
				}
			}
		}()
		var took []time.Duration
		one := []storage.Message{{Body: benchBody}}
		for b.Loop() {
			begin := time.Now()
			if err := x.queue.Send(ctx, one); err != nil {
				b.Fatal(err)
			}
			took = append(took, (<-arrived).Sub(begin))
		}
		reportTimes(b, took)
	})
}
