package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// job is a command. With only a reaction to it, it is what other systems call a job.
type job struct{ N int }

func (job) Kind() channel.Kind { return "bench.job.v1" }

const queue = "jobs"

// millrace is Millrace with its defaults.
type millrace struct {
	store    *storage.Store
	channels *channel.Channels
	sender   *channel.Sender[job]
	guard    *guard.Guard // or nil
}

func openGuarded(ctx context.Context, place string) (contestant, error) {
	return openMillrace(ctx, place, guard.New("service", guard.Config{Fault: guard.HTTP}))
}

func openPlain(ctx context.Context, place string) (contestant, error) {
	return openMillrace(ctx, place, nil)
}

func openMillrace(ctx context.Context, place string, g *guard.Guard) (*millrace, error) {
	routes, err := channel.NewRoutes(channel.Command[job](queue))
	if err != nil {
		return nil, err
	}
	m := &millrace{guard: g}
	if m.store, err = sqlite.Open(ctx, filepath.Join(place, "millrace.db")); err != nil {
		return nil, err
	}
	if m.channels, err = channel.New(m.store, routes, "/bench"); err != nil {
		return nil, err
	}
	m.sender, err = channel.NewSender[job](m.channels)
	return m, err
}

func (m *millrace) Send(ctx context.Context, n int) error { return m.sender.Send(ctx, job{n}) }

func (m *millrace) Start(ctx context.Context, do doFunc) error {
	quiet := slog.New(slog.DiscardHandler)
	h := handlers.NewRegistry(m.channels, handlers.Config{Logger: quiet})
	cfg := worker.Config{Logger: quiet}
	if g := m.guard; g == nil {
		client := newClient(newTransport())
		handlers.React(h, queue, func(ctx context.Context, j job) error { return do(ctx, client, j.N) })
	} else {
		client := newClient(g.Transport(newTransport()))
		handlers.React(h, queue, guard.Around(g, func(ctx context.Context, j job) error { return do(ctx, client, j.N) }))
		cfg.Queues = map[string]worker.QueueConfig{queue: {Limiter: g.Limiter}}
	}
	w, err := worker.New(h, cfg)
	if err != nil {
		return err
	}
	go func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(os.Stderr, "outage: millrace:", err)
			os.Exit(1)
		}
	}()
	return nil
}

func (m *millrace) Dead(ctx context.Context) (int, error) {
	counts, err := poison.Count(ctx, m.store)
	return int(counts[queue]), err
}
