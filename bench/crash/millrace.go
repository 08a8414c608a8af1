package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// job is what Millrace calls an event.
type job struct{ ID string }

func (job) Kind() channel.Kind  { return "crash.job.v1" }
func (j job) MessageID() string { return j.ID }

func millraceSystem() system {
	return system{
		name:     "millrace",
		start:    func(_ context.Context, dir string) (string, func(), error) { return dir, func() {}, nil },
		settings: func(settings) string { return "SQLite, all defaults" },
		enqueue: func(ctx context.Context, dir string, trial int, ids []string) error {
			store, channels, err := openMillrace(ctx, dir, trial)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			sender, err := channel.NewSender[job](channels)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := sender.Send(ctx, job{ID: id}); err != nil {
					return err
				}
			}
			return nil
		},
		work: func(ctx context.Context, dir string, trial int, _ settings, run func(context.Context, string)) error {
			store, channels, err := openMillrace(ctx, dir, trial)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
			handlers.React(h, "jobs", func(ctx context.Context, j job) error {
				run(ctx, j.ID)
				return context.Cause(ctx)
			})
			w, err := worker.New(h, worker.Config{})
			if err != nil {
				return err
			}
			return w.Run(ctx)
		},
	}
}

func openMillrace(ctx context.Context, dir string, trial int) (*storage.Store, *channel.Channels, error) {
	routes, err := channel.NewRoutes(channel.Event[job]("jobs"))
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, fmt.Sprintf("trial-%d.db", trial)))
	if err != nil {
		return nil, nil, err
	}
	channels, err := channel.New(store, routes, "/crash")
	return store, channels, err
}
