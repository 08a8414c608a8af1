package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/millrace-go/millrace/bench/servers"
)

// riverArgs are the arguments of a job.
type riverArgs struct {
	ID string `json:"id"`
}

func (riverArgs) Kind() string { return "job" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	run func(context.Context, string)
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	w.run(ctx, j.Args.ID)
	return ctx.Err()
}

func riverSystem() system {
	return system{
		name: "river",
		settings: func(set settings) string {
			if set.rescue == 0 {
				return "PostgreSQL, all defaults: RescueStuckJobsAfter is 1 h"
			}
			return fmt.Sprintf("PostgreSQL, RescueStuckJobsAfter shortened to %v", set.rescue)
		},
		start: func(ctx context.Context, dir string) (string, func(), error) {
			s, err := servers.Postgres(ctx, dir)
			if err != nil {
				return "", nil, err
			}
			return s.Socket, s.Stop, nil
		},
		enqueue: func(ctx context.Context, dir string, trial int, ids []string) error {
			if err := servers.Execute(ctx, servers.PostgresURL(dir, "postgres"), fmt.Sprintf("CREATE DATABASE trial%d", trial)); err != nil {
				return err
			}
			pool, err := newPool(ctx, dir, trial)
			if err != nil {
				return err
			}
			defer pool.Close()
			migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
			if err != nil {
				return err
			}
			if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
				return err
			}
			client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
			if err != nil {
				return err
			}
			for _, id := range ids {
				if _, err := client.Insert(ctx, riverArgs{ID: id}, nil); err != nil {
					return err
				}
			}
			return nil
		},
		work: func(ctx context.Context, dir string, trial int, set settings, run func(context.Context, string)) error {
			pool, err := newPool(ctx, dir, trial)
			if err != nil {
				return err
			}
			defer pool.Close()
			workers := river.NewWorkers()
			river.AddWorker(workers, &riverWorker{run: run})
			client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
				Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2 * jobs}}, Workers: workers,
				RescueStuckJobsAfter: set.rescue, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				return err
			}
			if err := client.Start(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return client.StopAndCancel(stopping)
		},
	}
}

func newPool(ctx context.Context, dir string, trial int) (*pgxpool.Pool, error) {
	return pgxpool.New(ctx, servers.PostgresURL(dir, fmt.Sprintf("trial%d", trial))+" pool_max_conns=4")
}
