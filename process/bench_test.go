package process_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

type job struct {
	N     int `json:"n"`
	Items int `json:"items"`
}

// benched runs instances of a plan on a store that syncs each write, and returns when all have ended.
func benched(b *testing.B, instances int, s job, plan func(p *process.Plan[job])) {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	routes, err := channel.NewRoutes(process.Route("bench"))
	if err != nil {
		b.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/bench")
	if err != nil {
		b.Fatal(err)
	}
	var left sync.WaitGroup
	left.Add(instances)
	r := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	full := func(p *process.Plan[job]) {
		plan(p)
		process.Do(p, "end", func(context.Context, job) (int, error) { left.Done(); return 0, nil }, nil)
	}
	if err := process.Register(r, "bench", process.Version(1, full)); err != nil {
		b.Fatal(err)
	}
	w, err := worker.New(r, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	all := process.Open[job](channels, "bench")
	began := time.Now()
	var some []channel.Message
	for i := range instances {
		some = append(some, all.Starting(fmt.Sprint("i", i), s))
		if len(some) == 50 || i == instances-1 {
			if err := channels.Send(ctx, some...); err != nil {
				b.Fatal(err)
			}
			some = nil
		}
	}
	left.Wait()
	b.ReportMetric(float64(instances*s.N)/time.Since(began).Seconds(), "steps/s")
	b.ReportMetric(time.Since(began).Seconds(), "s")
	stop()
	<-ended
}

func sequence(n int) func(p *process.Plan[job]) {
	return func(p *process.Plan[job]) {
		for i := range n - 1 {
			process.Do(p, fmt.Sprint("s", i), func(context.Context, job) (int, error) { return 0, nil }, nil)
		}
	}
}

func BenchmarkSequences(b *testing.B) {
	for range b.N {
		benched(b, 1000, job{N: 3}, sequence(3))
	}
}

func BenchmarkLong(b *testing.B) {
	for range b.N {
		benched(b, 1, job{N: 200}, sequence(200))
	}
}

func BenchmarkEach(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				benched(b, 1, job{N: n, Items: n}, func(p *process.Plan[job]) {
					process.Each(p, "each", func(j job) []int { return make([]int, j.Items) }, func(context.Context, int) (int, error) { return 0, nil }, nil)
				})
			}
		})
	}
}
