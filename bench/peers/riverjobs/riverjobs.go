// Package riverjobs is River as a measured system, on any driver. It is built with River's newest version for
// PostgreSQL, and in another module with an older version for SQLite.
package riverjobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/millrace-go/millrace/bench/peers/child"
)

// Tuned is set for speed: it fetches often, and runs many jobs at once.
func Tuned(maxWorkers int) river.Config {
	return river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
	}
}

// Defaults is the first example of River's documentation.
func Defaults() river.Config {
	return river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}}
}

type args struct{ child.Job }

func (args) Kind() string { return "job" }

type worker struct {
	river.WorkerDefaults[args]
	handle func(child.Job)
}

func (w *worker) Work(_ context.Context, j *river.Job[args]) error {
	w.handle(j.Args.Job)
	return nil
}

type client[TTx any] struct {
	river      *river.Client[TTx]
	filler     *river.Client[TTx]
	worker     *worker
	operations func(context.Context) (int64, error)
}

// Open makes River's tables and a client. It fills by River's fastest call, with a client that only inserts: after
// that call a client with queues panics on SQLite in v0.31.0.
func Open[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], config river.Config, operations func(context.Context) (int64, error)) (child.Client, error) {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	c := &client[TTx]{worker: &worker{}, operations: operations}
	config.Workers, config.Logger = river.NewWorkers(), slog.New(slog.DiscardHandler)
	if c.filler, err = river.NewClient(driver, &river.Config{Logger: config.Logger}); err != nil {
		return nil, err
	}
	river.AddWorker(config.Workers, c.worker)
	c.river, err = river.NewClient(driver, &config)
	return c, err
}

func (c *client[TTx]) Send(ctx context.Context, j child.Job) error {
	_, err := c.river.Insert(ctx, args{j}, nil)
	return err
}

func (c *client[TTx]) Fill(ctx context.Context, jobs []child.Job) error {
	all := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		all[i] = river.InsertManyParams{Args: args{j}}
	}
	_, err := c.filler.InsertManyFast(ctx, all)
	return err
}

func (c *client[TTx]) Start(ctx context.Context, handle func(child.Job)) error {
	c.worker.handle = handle
	return c.river.Start(ctx)
}

func (c *client[TTx]) Operations(ctx context.Context) (int64, error) { return c.operations(ctx) }
