package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Bodies are as long as a small command's envelope.
var benchBody = make([]byte, 450)

// spread runs f b.N times, in so many goroutines.
func spread(b *testing.B, goroutines int, f func(worker int) error) {
	b.Helper()
	var (
		left atomic.Int64
		all  sync.WaitGroup
		took = make([][]time.Duration, goroutines)
	)
	left.Store(int64(b.N))
	b.ResetTimer()
	for i := range goroutines {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	reportTimes(b, slices.Concat(took...))
}

func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("senders=%d", n), func(b *testing.B) {
			q := openTest(b, "?wake=off").Queue("bench")
			one := []storage.Message{{Body: benchBody}}
			spread(b, n, func(int) error { return q.Send(b.Context(), one) })
		})
	}
}

func BenchmarkSendBatch(b *testing.B) {
	q := openTest(b, "").Queue("bench")
	batch := slices.Repeat([]storage.Message{{Body: benchBody}}, 100)
	spread(b, 1, func(int) error { return q.Send(b.Context(), batch) })
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "msg/s")
}

func fill(b *testing.B, q driver.Queue, n int) {
	b.Helper()
	batch := slices.Repeat([]storage.Message{{Body: benchBody}}, 500)
	for ; n > 0; n -= len(batch) {
		if err := q.Send(b.Context(), batch[:min(n, len(batch))]); err != nil {
			b.Fatal(err)
		}
	}
}

// drain receives and deletes until n messages are gone.
func drain(b *testing.B, q driver.Queue, batch, n int) {
	var receipts []storage.Receipt
	for n > 0 {
		got, err := q.Receive(b.Context(), batch, time.Minute)
		if err != nil || len(got) == 0 {
			b.Errorf("received %d, %v", len(got), err)
			return
		}
		receipts = receipts[:0]
		for _, d := range got {
			receipts = append(receipts, d.Receipt)
		}
		if err := q.Delete(b.Context(), receipts); err != nil {
			b.Error(err)
			return
		}
		n -= len(got)
	}
}

func BenchmarkDrain(b *testing.B) {
	for _, batch := range []int{32, 256, 512} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			const n = 20000
			q := openTest(b, "").Queue("bench")
			for range b.N {
				b.StopTimer()
				fill(b, q, n)
				b.StartTimer()
				drain(b, q, batch, n)
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkCommit writes a document of 3 KB, sends a message and deletes one.
func BenchmarkCommit(b *testing.B) {
	s := openTest(b, "?wake=off")
	in := s.Queue("commands")
	fill(b, in, b.N)
	receipts := make(chan storage.Receipt, b.N)
	for len(receipts) < b.N {
		got, err := in.Receive(b.Context(), maxReceive, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		for _, d := range got {
			receipts <- d.Receipt
		}
	}
	doc := make([]byte, 3000)
	etags := make([]storage.ETag, 16)
	spread(b, 16, func(i int) error {
		w := storage.Work{
			Write:  &storage.Write{Container: "docs", Key: strconv.Itoa(i), Body: doc, If: storage.Condition{IfMatch: etags[i]}},
			Send:   []storage.Send{{Queue: "events", Message: storage.Message{Body: benchBody}}},
			Delete: []storage.Claim{{Queue: "commands", Receipt: <-receipts}},
		}
		did, err := s.Commit(b.Context(), w)
		etags[i] = did.ETag
		return err
	})
}

// BenchmarkPath does for each command all that a worker does. It has 16 senders, 2 consumers that claim commands,
// write a document and send an event for each, and 2 consumers that claim the events, write a view and delete them.
func BenchmarkPath(b *testing.B) {
	s := openTest(b, "")
	ctx := b.Context()
	doc := make([]byte, 3000)
	stage := func(from, to string) *sync.WaitGroup {
		var all sync.WaitGroup
		ring, stop := wake(s, from)
		work := make(chan storage.Delivery, 64)
		all.Go(func() {
			defer stop()
			defer close(work)
			for n := 0; n < b.N; {
				got, err := s.Queue(from).Receive(ctx, 64, time.Minute)
				if err != nil {
					b.Error(err)
					return
				}
				n += len(got)
				if len(got) == 0 {
					<-ring
				}
				for _, d := range got {
					work <- d
				}
			}
		})
		for i := range 16 {
			all.Go(func() {
				var etag storage.ETag
				for d := range work {
					w := storage.Work{
						Write:  &storage.Write{Container: from, Key: strconv.Itoa(i), Body: doc, If: storage.Condition{IfMatch: etag}},
						Delete: []storage.Claim{{Queue: from, Receipt: d.Receipt}},
					}
					if to != "" {
						w.Send = []storage.Send{{Queue: to, Message: storage.Message{Body: d.Body}}}
					}
					did, err := s.Commit(ctx, w)
					if err != nil || len(did.Stale) > 0 {
						b.Error(err, did.Stale)
					}
					etag = did.ETag
				}
			})
		}
		return &all
	}
	one := []storage.Message{{Body: benchBody}}
	b.ResetTimer()
	first, second := stage("commands", "events"), stage("events", "")
	q := s.Queue("commands")
	spread(b, 16, func(int) error { return q.Send(ctx, one) })
	b.StartTimer()
	first.Wait()
	second.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// BenchmarkBalanced has 16 senders and one consumer that receives in batches and deletes.
func BenchmarkBalanced(b *testing.B) {
	s := openTest(b, "")
	q := s.Queue("bench")
	ring, stop := wake(s, "bench")
	defer stop()
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for n := 0; n < b.N; {
			got, err := q.Receive(b.Context(), 256, time.Minute)
			if err != nil {
				b.Error(err)
				return
			}
			if len(got) == 0 {
				<-ring
				continue
			}
			n += len(got)
			var receipts []storage.Receipt
			for _, d := range got {
				receipts = append(receipts, d.Receipt)
			}
			if err := q.Delete(b.Context(), receipts); err != nil {
				b.Error(err)
				return
			}
		}
	})
	one := []storage.Message{{Body: benchBody}}
	spread(b, 16, func(int) error { return q.Send(b.Context(), one) })
	b.StartTimer()
	consumer.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// BenchmarkLatency measures from the call of Send to the return of the Receive that got the message.
func BenchmarkLatency(b *testing.B) {
	s := openTest(b, "")
	q := s.Queue("bench")
	ring, stop := wake(s, "bench")
	defer stop()
	arrived := make(chan time.Time)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-ring:
			}
			got, err := q.Receive(ctx, 10, time.Minute)
			if err != nil {
				return
			}
			at := time.Now()
			for _, d := range got {
				q.Delete(ctx, []storage.Receipt{d.Receipt})
				arrived <- at
			}
		}
	}()
	var took []time.Duration
	one := []storage.Message{{Body: benchBody}}
	for b.Loop() {
		begin := time.Now()
		if err := q.Send(ctx, one); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-arrived).Sub(begin))
	}
	reportTimes(b, took)
}
