package main

import (
	"context"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/mikestefanello/backlite"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/peers/statements"
)

type task struct{ child.Job }

// Config is that of Backlite's README, without the retention of finished jobs.
func (task) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "job", MaxAttempts: 5, Backoff: 5 * time.Second, Timeout: 10 * time.Second}
}

type backliteClient struct {
	client     *backlite.Client
	operations func(context.Context) (int64, error)
}

// openBacklite opens Backlite with a number of workers and a source's parameters. No connections means no limit.
func openBacklite(workers, connections int, params string) openFunc {
	return func(_ context.Context, spec child.Spec) (child.Client, error) {
		if workers > 10 && (spec.Work == child.Latency || spec.Work == child.Idle) {
			workers = 10 // more workers don't help
		}
		db, operations, err := statements.Open(spec, "sqlite3", "file:"+filepath.Join(spec.Dir, "backlite.db")+"?"+params)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(connections)
		client, err := backlite.NewClient(backlite.ClientConfig{
			DB: db, NumWorkers: workers, ReleaseAfter: 10 * time.Minute, CleanupInterval: time.Hour,
		})
		if err != nil {
			return nil, err
		}
		return &backliteClient{client, operations}, client.Install()
	}
}

func (c *backliteClient) Send(ctx context.Context, j child.Job) error {
	_, err := c.client.Add(task{j}).Ctx(ctx).Save()
	return err
}

func (c *backliteClient) Fill(ctx context.Context, jobs []child.Job) error {
	all := make([]backlite.Task, len(jobs))
	for i, j := range jobs {
		all[i] = task{j}
	}
	_, err := c.client.Add(all...).Ctx(ctx).Save()
	return err
}

func (c *backliteClient) Start(ctx context.Context, handle func(child.Job)) error {
	c.client.Register(backlite.NewQueue(func(_ context.Context, t task) error { handle(t.Job); return nil }))
	c.client.Start(ctx)
	return nil
}

func (c *backliteClient) Operations(ctx context.Context) (int64, error) { return c.operations(ctx) }
