package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverArgs struct {
	N int `json:"n"`
}

func (riverArgs) Kind() string { return "job" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	client *http.Client
	do     doFunc
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	return w.do(ctx, w.client, j.Args.N)
}

type riverClient struct {
	pool   *pgxpool.Pool
	river  *river.Client[pgx.Tx]
	sender *river.Client[pgx.Tx]
	worker *riverWorker
}

// openRiver opens River with two pools of connections: one works, and one sends, as another process would.
func openRiver(ctx context.Context, place string) (contestant, error) {
	pool, err := pgxpool.New(ctx, place)
	if err != nil {
		return nil, err
	}
	sending, err := pgxpool.New(ctx, place)
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	c := &riverClient{pool: pool, worker: &riverWorker{client: newClient(newTransport())}}
	if c.sender, err = river.NewClient(riverpgxv5.New(sending), &river.Config{Logger: quiet}); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, c.worker)
	c.river, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}, Workers: workers, Logger: quiet,
	})
	return c, err
}

func (c *riverClient) Send(ctx context.Context, job int) error {
	_, err := c.sender.Insert(ctx, riverArgs{job}, nil)
	return err
}

func (c *riverClient) Start(ctx context.Context, do doFunc) error {
	c.worker.do = do
	return c.river.Start(ctx)
}

func (c *riverClient) Dead(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'discarded'").Scan(&n)
	return n, err
}
