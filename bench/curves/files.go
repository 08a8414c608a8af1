package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/worker"
)

// files measures the gain of several files for messages, each of which syncs by itself. All belong to one process, as
// in a program that hashes a key to one of its stores.
func (b *bench) files(ctx context.Context) ([]*table, error) {
	t := &table{Name: "files", Title: "One process on several files", Note: "SQLite, messages of 200 bytes spread evenly, 16 senders, a worker for each file, a reaction that does nothing.",
		Columns: []string{"files", "send/s", "drain/s", "send and handle/s"},
		charts:  []plot{{y: "send/s", x: "files"}, {y: "drain/s", x: "files"}, {y: "send and handle/s", x: "files"}}}
	numbers := []int{1, 2, 4}
	rates := make([][3][]float64, len(numbers))
	for range b.rounds { // in turns, so that a change of the disk's speed affects all
		for i, files := range numbers {
			one, err := quietly(ctx, b, func() ([]float64, error) { return b.onFiles(ctx, files, 25*b.n) })
			if err != nil {
				return []*table{t}, fmt.Errorf("%d files: %w", files, err)
			}
			for j, r := range one {
				rates[i][j] = append(rates[i][j], r)
			}
		}
	}
	for i, files := range numbers {
		t.add(files, median(rates[i][0]), median(rates[i][1]), median(rates[i][2]))
	}
	return []*table{t}, nil
}

// onFiles returns the rates of sending some n messages, of draining them, and of both at once.
func (b *bench) onFiles(ctx context.Context, files, n int) (rates []float64, err error) {
	var worlds []*world
	defer func() {
		for _, w := range worlds {
			err = errors.Join(err, w.store.Close())
		}
	}()
	for range files {
		path, err := b.file()
		if err != nil {
			return nil, err
		}
		w, err := open(ctx, "sqlite:"+path, plan{})
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, w)
	}
	share := max(1, n/senders) // of a sender; each file gets the same number, because senders take turns at them
	send := func(ctx context.Context) error {
		return together(ctx, senders, func(ctx context.Context, i int) error {
			return fill(ctx, worlds[i%files].noops, share, 1, func(int) noop { return noop{Payload: payload(small)} })
		})
	}
	drain := func(ctx context.Context) error {
		return together(ctx, files, func(ctx context.Context, i int) error {
			_, err := worlds[i].drain(ctx, worker.Config{Logger: quiet}, noops, share*senders/files)
			return err
		})
	}
	both := func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return send(ctx) })
		g.Go(func() error { return drain(ctx) })
		return g.Wait()
	}
	for _, step := range []func(context.Context) error{send, drain, both} {
		began := time.Now()
		if err := step(ctx); err != nil {
			return nil, err
		}
		rates = append(rates, rate(share*senders, time.Since(began)))
	}
	return rates, nil
}

// together runs f for each of n at once, and stops all when one fails.
func together(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}
