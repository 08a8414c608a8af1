package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
)

// A goWorkflows is go-workflows on a SQLite file, as in its own benchmark: with the backend for one process, which
// tells the workers of new tasks.
type goWorkflows struct {
	path   string
	ends   *ends
	client *client.Client
	worker *worker.Worker
	stop   context.CancelFunc
	names  atomic.Int64
}

// sqliteSettings make a file as durable as the other systems' stores. The backend chooses WAL by itself and leaves
// synchronous at SQLite's default, which is FULL too.
const sqliteSettings = "?_pragma=synchronous(FULL)"

func openGoWorkflows(_ context.Context, place string, do stepFunc) (contestant, error) {
	return startGoWorkflows(place, do, func(b backend.Backend) backend.Backend {
		return monoprocess.NewMonoprocessBackend(b)
	})
}

// reopenGoWorkflows asks the file itself for tasks. The backend for one process would notice only after up to 30
// seconds that a dead process's lock has ended.
func reopenGoWorkflows(_ context.Context, place string, do stepFunc) (contestant, error) {
	return startGoWorkflows(place, do, func(b backend.Backend) backend.Backend { return b })
}

func startGoWorkflows(place string, do stepFunc, wrap func(backend.Backend) backend.Backend) (c contestant, err error) {
	defer func() { // the backend panics where it can't open the file
		if p := recover(); p != nil {
			err = fmt.Errorf("go-workflows: %v", p)
		}
	}()
	store := sqlite.NewSqliteBackend(place+sqliteSettings, sqlite.WithBackendOptions(
		backend.WithLogger(slog.New(slog.DiscardHandler)), backend.WithMaxHistorySize(maxHistory)))
	g := &goWorkflows{path: place, ends: &ends{Backend: wrap(store), waiting: map[string]chan error{}}}
	options := worker.DefaultOptions
	options.WorkflowExecutorCacheSize = cachedExecutors
	g.client, g.worker = client.New(g.ends), worker.New(g.ends, &options)
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	err = errors.Join(
		g.worker.RegisterActivity(&activities{do}),
		g.worker.RegisterWorkflow(goSequence, registry.WithName("sequence")),
		g.worker.RegisterWorkflow(goFanOut, registry.WithName("fan-out")),
		g.worker.Start(ctx),
	)
	if err != nil {
		stop()
		return nil, errors.Join(err, g.ends.Close())
	}
	return g, nil
}

const (
	maxHistory      = 10_000_000 // events; the default is 10,000, which an instance with 5,000 children exceeds
	cachedExecutors = 2_000      // the default is 128; an instance that isn't cached is replayed at each step
)

// activities are the steps. A workflow names a step by its method.
type activities struct{ do stepFunc }

// Step is exported so that the registry finds it.
func (a *activities) Step(_ context.Context, instance string, step int) (int, error) {
	a.do(instance, step)
	return step, nil
}

// goStep begins a step.
func goStep(ctx workflow.Context, instance string, step int) workflow.Future[int] {
	var none *activities
	return workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, none.Step, instance, step)
}

func goSequence(ctx workflow.Context, name string, steps int) error {
	for i := range steps {
		if _, err := goStep(ctx, name, i).Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func goFanOut(ctx workflow.Context, name string, n int) error {
	children := make([]workflow.Future[int], n)
	for i := range n {
		children[i] = goStep(ctx, name, i)
	}
	for _, child := range children {
		if _, err := child.Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *goWorkflows) Sequence(ctx context.Context, instances, steps, parallel int) error {
	return repeat(ctx, instances, parallel, func(ctx context.Context) error { return g.run(ctx, "sequence", steps) })
}

func (g *goWorkflows) FanOut(ctx context.Context, n int) error { return g.run(ctx, "fan-out", n) }

// run runs an instance to its end.
func (g *goWorkflows) run(ctx context.Context, kind string, n int) error {
	name := fmt.Sprintf("instance-%d", g.names.Add(1))
	ended := g.ends.wait(name)
	options := client.WorkflowInstanceOptions{InstanceID: name}
	if _, err := g.client.CreateWorkflowInstance(ctx, options, kind, name, n); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *goWorkflows) Stored(ctx context.Context) (n int64, err error) {
	db, err := sql.Open("sqlite", "file:"+g.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return compactSize(ctx, db)
}

// compactSize compacts a SQLite file and returns its size.
func compactSize(ctx context.Context, db *sql.DB) (n int64, err error) {
	db.SetMaxOpenConns(1)
	for _, s := range []string{"PRAGMA busy_timeout = 10000", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return 0, fmt.Errorf("%s: %w", s, err)
		}
	}
	err = db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").Scan(&n)
	return n, err
}

func (g *goWorkflows) Close() error {
	g.stop()
	stopped := make(chan error, 1)
	go func() { stopped <- g.worker.WaitForCompletion() }()
	select {
	case err := <-stopped:
		return errors.Join(err, g.ends.Close())
	case <-time.After(stopTime): // a task of a huge instance can't be cancelled
		return errors.Join(g.ends.Close(), errors.New("go-workflows: the worker doesn't stop"))
	}
}

// ends is a backend that tells of the ends of instances when they are stored. The client's own way is to ask the
// backend again and again, which takes the one connection from the workers.
type ends struct {
	backend.Backend
	mu      sync.Mutex
	waiting map[string]chan error
}

func (e *ends) wait(instance string) <-chan error {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := make(chan error, 1)
	e.waiting[instance] = ended
	return ended
}

func (e *ends) CompleteWorkflowTask(ctx context.Context, task *backend.WorkflowTask, state core.WorkflowInstanceState,
	executed, activities, timers []*history.Event, events []*history.WorkflowEvent) error {
	if err := e.Backend.CompleteWorkflowTask(ctx, task, state, executed, activities, timers, events); err != nil {
		return err
	}
	if state == core.WorkflowInstanceStateFinished {
		e.mu.Lock()
		defer e.mu.Unlock()
		if ended := e.waiting[task.WorkflowInstance.InstanceID]; ended != nil {
			ended <- failure(executed)
			delete(e.waiting, task.WorkflowInstance.InstanceID)
		}
	}
	return nil
}

// failure returns the error with which an instance ended, or nil. go-workflows calls both ends finished.
func failure(events []*history.Event) error {
	for _, e := range events {
		if end, ok := e.Attributes.(*history.ExecutionCompletedAttributes); ok && end.Error != nil {
			return end.Error
		}
	}
	return nil
}
