package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
)

// A dbosProcess is DBOS on a PostgreSQL database.
type dbosProcess struct {
	url   string
	dbos  dbos.Context
	names atomic.Int64
	do    stepFunc
}

type dbosInput struct {
	Name  string
	Count int
}

func openDBOS(ctx context.Context, place string, do stepFunc) (contestant, error) {
	d := &dbosProcess{url: place, do: do}
	var err error
	// The context's end would end the instances; Close does that.
	d.dbos, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "bench", DatabaseURL: place, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(d.dbos, d.sequence, dbos.WithWorkflowName("sequence"))
	dbos.RegisterWorkflow(d.dbos, d.fanOut, dbos.WithWorkflowName("fan-out"))
	if err := dbos.Launch(d.dbos); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *dbosProcess) step(name string, i int) dbos.Step[int] {
	return func(context.Context) (int, error) {
		d.do(name, i)
		return i, nil
	}
}

func (d *dbosProcess) sequence(ctx dbos.Context, in dbosInput) (int, error) {
	for i := range in.Count {
		if _, err := dbos.RunAsStep(ctx, d.step(in.Name, i), dbos.WithStepName("step")); err != nil {
			return 0, err
		}
	}
	return in.Count, nil
}

func (d *dbosProcess) fanOut(ctx dbos.Context, in dbosInput) (int, error) {
	children := make([]<-chan dbos.StepOutcome[int], in.Count)
	for i := range children {
		var err error
		if children[i], err = dbos.Go(ctx, d.step(in.Name, i), dbos.WithStepName("step")); err != nil {
			return 0, err
		}
	}
	for _, child := range children {
		if outcome := <-child; outcome.Err != nil {
			return 0, outcome.Err
		}
	}
	return in.Count, nil
}

func (d *dbosProcess) Sequence(ctx context.Context, instances, steps, parallel int) error {
	return repeat(ctx, instances, parallel, func(ctx context.Context) error { return d.run(ctx, d.sequence, steps) })
}

func (d *dbosProcess) FanOut(ctx context.Context, n int) error { return d.run(ctx, d.fanOut, n) }

// run runs an instance to its end.
func (d *dbosProcess) run(ctx context.Context, kind dbos.Workflow[dbosInput, int], n int) error {
	name := fmt.Sprintf("instance-%d", d.names.Add(1))
	handle, err := dbos.RunWorkflow(d.dbos, kind, dbosInput{name, n}, dbos.WithWorkflowID(name))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := handle.GetResult()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *dbosProcess) Stored(ctx context.Context) (n int64, err error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "VACUUM FULL"); err != nil {
		return 0, err
	}
	const sql = `SELECT sum(pg_total_relation_size(oid)) FROM pg_class
		WHERE relnamespace = 'dbos'::regnamespace AND relkind = 'r'`
	err = conn.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

func (d *dbosProcess) Close() error { return dbos.Shutdown(d.dbos, stopTime) }
