package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/worker"
)

// files measures what it would bring to spread messages over several files, each of which syncs by itself: one process, as
// a program would be that hashes a key to one of its stores.
func (b *bench) files(ctx context.Context) ([]*table, error) {
	t := &table{Name: "files", Title: "One process on several files", Note: "SQLite, messages of 200 bytes spread evenly, 16 senders, a worker for each file, a reaction that does nothing.",
		Columns: []string{"files", "send/s", "drain/s", "send and handle/s"},
		charts:  []chart{{y: "send/s", x: "files"}, {y: "drain/s", x: "files"}, {y: "send and handle/s", x: "files"}}}
	for _, files := range []int{1, 2, 4} {
		mid, err := b.medians(func() ([]float64, error) { return b.onFiles(ctx, files, 25*b.n) })
		if err != nil {
			return []*table{t}, fmt.Errorf("%d files: %w", files, err)
		}
		t.add(files, mid[0], mid[1], mid[2])
		b.say("%d files done", files)
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
	share := max(1, n/senders) // of a sender; files get as much each, for senders take turns at them
	send := func() error {
		return all(senders, func(i int) error {
			return fill(ctx, worlds[i%files].noops, share, 1, func(int) noop { return noop{Payload: payload(small)} })
		})
	}
	drain := func() error {
		return all(files, func(i int) error {
			_, err := worlds[i].drain(ctx, worker.Config{Logger: quiet}, noops, share*senders/files)
			return err
		})
	}
	both := func() error {
		return all(2, func(i int) error { return []func() error{send, drain}[i]() })
	}
	for _, step := range []func() error{send, drain, both} {
		began := time.Now()
		if err := step(); err != nil {
			return nil, err
		}
		rates = append(rates, rate(share*senders, time.Since(began)))
	}
	return rates, nil
}

// all runs f for each of n at once.
func all(n int, f func(i int) error) error {
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}
