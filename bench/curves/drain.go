package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/worker"
)

// onFile runs f with a new store on SQLite and the plan's handlers.
func (b *bench) onFile(ctx context.Context, p plan, f func(w *world, url string) error) error {
	path, err := b.file()
	if err != nil {
		return err
	}
	w, err := open(ctx, "sqlite:"+path, p)
	if err != nil {
		return err
	}
	return errors.Join(f(w, "sqlite:"+path), w.store.Close())
}

// medians runs f some times and returns the median of each of its numbers.
func (b *bench) medians(ctx context.Context, f func() ([]float64, error)) ([]float64, error) {
	var all [][]float64
	for range b.rounds {
		one, err := quietly(ctx, b, f)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = make([][]float64, len(one))
		}
		for i, x := range one {
			if !math.IsNaN(x) {
				all[i] = append(all[i], x)
			}
		}
	}
	mid := make([]float64, len(all))
	for i := range all {
		mid[i] = median(all[i])
	}
	return mid, nil
}

// mostBytes bounds the bodies in one measurement of a size.
const mostBytes = 256 << 20

func (b *bench) payload(ctx context.Context) ([]*table, error) {
	t := &table{Name: "payload", Title: "Messages by their size", Note: "One worker process with default settings on SQLite, a reaction that does nothing. What is larger than a message may be (44 KiB) travels as a claim check.",
		Columns: []string{"bytes", "messages", "send, 1 sender/s", "send, 16 senders/s", "drain/s", "send, MB/s", "drain, MB/s"},
		charts: []plot{
			{y: "send, 16 senders/s", x: "bytes", logX: true}, {y: "drain/s", x: "bytes", logX: true},
			{y: "send, MB/s", x: "bytes", logX: true}, {y: "drain, MB/s", x: "bytes", logX: true},
		}}
	for _, bytes := range []int{100, 1000, 4000, 16_000, 40_000, 64_000, 256_000, 1_000_000} {
		n := max(2, min(b.many(), mostBytes/bytes))
		body := payload(bytes)
		mid, err := b.medians(ctx, func() (x []float64, err error) {
			err = b.onFile(ctx, plan{}, func(w *world, _ string) error {
				x, err = b.sized(ctx, w, n, body)
				return err
			})
			return x, err
		})
		if err != nil {
			return []*table{t}, fmt.Errorf("%d bytes: %w", bytes, err)
		}
		t.add(bytes, n, mid[0], mid[1], mid[2], mid[1]*float64(bytes)/1e6, mid[2]*float64(bytes)/1e6)
		b.say("payload of %d bytes done", bytes)
	}
	batches := &table{Name: "batch", Title: "Sending in batches", Note: "One sender on SQLite, bodies of 200 bytes. A batch is one call of Send.",
		Columns: []string{"batch", "messages/s", "ms a batch"}, charts: []plot{{y: "messages/s", x: "batch", logX: true}}}
	for _, batch := range powers(1, 1000) {
		mid, err := b.medians(ctx, func() (x []float64, err error) {
			err = b.onFile(ctx, plan{}, func(w *world, _ string) error {
				message := func(int) noop { return noop{Payload: payload(small)} }
				err := fill(ctx, w.noops, max(b.n, 20*batch), batch, message) // to warm up
				began, sent := time.Now(), 0
				for ; err == nil && time.Since(began) < b.most; sent += batch {
					err = fill(ctx, w.noops, batch, batch, message)
				}
				x = []float64{rate(sent, time.Since(began))}
				return err
			})
			return x, err
		})
		if err != nil {
			return []*table{t, batches}, err
		}
		batches.add(batch, mid[0], float64(batch)/mid[0]*1e3)
	}
	return []*table{t, batches}, nil
}

// sized sends n messages by one sender and n by 16, and drains them.
func (b *bench) sized(ctx context.Context, w *world, n int, body string) (rates []float64, err error) {
	all := 0
	for _, senders := range []int{1, 16} {
		sent, took, err := b.spread(senders, n, func() error { return w.noops.Send(ctx, noop{Payload: body}) })
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate(sent, took))
		all += sent
	}
	took, err := w.drain(ctx, worker.Config{}, noops, all)
	return append(rates, rate(all, took)), err
}

// spread runs f n times in several goroutines, or as often as the time allows.
func (b *bench) spread(goroutines, n int, f func() error) (did int, took time.Duration, err error) {
	var next, done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, goroutines)
	began := time.Now()
	for i := range goroutines {
		all.Go(func() {
			for next.Add(1) <= int64(n) && time.Since(began) < b.most && errs[i] == nil {
				if errs[i] = f(); errs[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(done.Load()), time.Since(began), errors.Join(errs...)
}

func (b *bench) handlers(ctx context.Context) ([]*table, error) {
	const note = "One worker process on SQLite, messages of 200 bytes that wait when it starts."
	parallel := &table{Name: "handlers", Title: "Drain by concurrency", Note: note,
		Columns: []string{"concurrency", "no-op/s", "handler of 1 ms/s"},
		charts:  []plot{{y: "no-op/s", x: "concurrency", logX: true}, {y: "handler of 1 ms/s", x: "concurrency", logX: true}}}
	for c := 1; c <= 64; c *= 2 {
		noop, err := b.backlogged(ctx, plan{}, worker.Config{Concurrency: c}, 5*b.many())
		if err != nil {
			return []*table{parallel}, fmt.Errorf("concurrency %d: %w", c, err)
		}
		// One handler does 1000 a second at best.
		most := max(1, int(float64(c)*b.most.Seconds()*500))
		slow, err := b.backlogged(ctx, plan{Takes: time.Millisecond}, worker.Config{Concurrency: c}, min(5*b.many(), most))
		if err != nil {
			return []*table{parallel}, fmt.Errorf("concurrency %d: %w", c, err)
		}
		parallel.add(c, noop, slow)
		b.say("concurrency %d done", c)
	}
	held := &table{Name: "in-hand", Title: "Drain by messages in hand", Note: note + " Commands are for 365 value objects, and their events are heard, which is part of it.",
		Columns: []string{"in hand", "no-op/s", "commands/s"},
		charts:  []plot{{y: "no-op/s", x: "in hand", logX: true}, {y: "commands/s", x: "in hand", logX: true}}}
	for n := 512; n <= 16384; n *= 2 { // with larger backlogs
		noop, err := b.backlogged(ctx, plan{}, worker.Config{MaxInHand: n}, 75*b.n)
		if err != nil {
			return []*table{parallel, held}, fmt.Errorf("%d in hand: %w", n, err)
		}
		decided, err := b.backlogged(ctx, plan{Ticks: true, Told: true}, worker.Config{MaxInHand: n}, 30*b.n)
		if err != nil {
			return []*table{parallel, held}, fmt.Errorf("%d in hand: %w", n, err)
		}
		held.add(n, noop, decided)
		b.say("%d in hand done", n)
	}
	return []*table{parallel, held}, nil
}

// backlogged returns how many messages a second a worker handles, of n that wait when it starts.
func (b *bench) backlogged(ctx context.Context, p plan, cfg worker.Config, n int) (float64, error) {
	mid, err := b.medians(ctx, func() (x []float64, err error) {
		err = b.onFile(ctx, p, func(w *world, _ string) error {
			var err error
			if body := payload(small); p.Ticks {
				err = fill(ctx, w.ticks, n, 500, func(i int) tick { return tick{Key: fmt.Sprint(i % 365), Payload: body} })
			} else {
				err = fill(ctx, w.noops, n, 500, func(int) noop { return noop{Payload: body} })
			}
			if err != nil {
				return err
			}
			took, err := w.drain(ctx, cfg, p.last(), n)
			x = []float64{rate(n, took)}
			return err
		})
		return x, err
	})
	if err != nil {
		return 0, err
	}
	return mid[0], nil
}

func (b *bench) processes(ctx context.Context) ([]*table, error) {
	t := &table{Name: "processes", Title: "Worker processes on one file", Note: "SQLite, messages of 200 bytes, a reaction that does nothing. Balanced: 16 senders in one more process, at most 2,000 messages ahead.",
		Columns: []string{"processes", "drain/s", "balanced/s"}, charts: []plot{{y: "drain/s", x: "processes"}, {y: "balanced/s", x: "processes"}}}
	for _, p := range []int{1, 2, 3, 4, 6, 8} {
		mid, err := b.medians(ctx, func() ([]float64, error) {
			drain, err := b.crewRun(ctx, p, 4*b.many(), 4*b.many())
			if err != nil {
				return nil, err
			}
			balanced, err := b.crewRun(ctx, p, 4*b.many(), 0)
			return []float64{drain, balanced}, err
		})
		if err != nil {
			return []*table{t}, fmt.Errorf("%d processes: %w", p, err)
		}
		t.add(p, mid[0], mid[1])
		b.say("%d processes done", p)
	}
	return []*table{t}, nil
}

// crewRun lets some processes handle n messages and returns the rate. The first part of the messages waits when they
// begin.
func (b *bench) crewRun(ctx context.Context, processes, n, first int) (r float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("not done in time"))
	defer cancel()
	err = b.onFile(ctx, plan{}, func(w *world, url string) error {
		message := func(int) noop { return noop{Payload: payload(small)} }
		if err := fill(ctx, w.noops, first, 500, message); err != nil {
			return err
		}
		c, err := hire(ctx, processes, workerSpec{Store: url}, b.errs)
		if err != nil {
			return err
		}
		began, err := c.begin()
		if err == nil {
			err = feed(ctx, c, n-first, 2000, func(int) error { return w.noops.Send(ctx, message(0)) })
		}
		if err == nil {
			err = waitFor(ctx, c, w, noops, n)
		}
		err = errors.Join(err, c.dismiss())
		r = rate(n, c.at.Sub(began))
		return err
	})
	return r, err
}
