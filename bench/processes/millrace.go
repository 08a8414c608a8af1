package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// planned are the lengths of the plans of steps in sequence: a plan is fixed before its instances begin.
var planned = []int{1, shortSteps, 20, killedSteps, longSteps}

// A millraceProcess is Millrace on a SQLite file, with one worker.
type millraceProcess struct {
	path     string
	store    *storage.Store
	channels *channel.Channels
	stop     context.CancelFunc
	ended    chan error // of the worker
	names    atomic.Int64

	mu      sync.Mutex
	waiting map[string]chan process.Status
}

// An instance is the state of one.
type instance struct {
	Name  string `json:"name"`
	Items int    `json:"items,omitzero"`
}

// over says that an instance has ended.
type over struct {
	Name   string         `json:"name"`
	Status process.Status `json:"status"`
}

func (over) Kind() channel.Kind { return "bench.over.v1" }

func sequenceName(steps int) string { return fmt.Sprintf("sequence-%d", steps) }

func openMillrace(ctx context.Context, place string, do stepFunc) (contestant, error) {
	store, err := sqlite.Open(ctx, place)
	if err != nil {
		return nil, err
	}
	m := &millraceProcess{path: place, store: store, ended: make(chan error, 1), waiting: map[string]chan process.Status{}}
	if err := m.start(do); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, nil
}

func (m *millraceProcess) start(do stepFunc) error {
	routes := []channel.Route{process.Route("fan-out"), channel.Event[over]("over")}
	for _, n := range planned {
		routes = append(routes, process.Route(sequenceName(n)))
	}
	all, err := channel.NewRoutes(routes...)
	if err != nil {
		return err
	}
	if m.channels, err = channel.New(m.store, all, "/bench"); err != nil {
		return err
	}
	r := handlers.NewRegistry(m.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.React(r, "over", m.note)
	err = process.Register(r, "fan-out", process.Version(1, func(p *process.Plan[instance]) {
		process.Each(p, "each", instance.items, func(_ context.Context, x item) (int, error) { do(x.Name, x.N); return x.N, nil }, nil)
		process.Ended(p, announce)
	}))
	for _, n := range planned {
		err = errors.Join(err, process.Register(r, sequenceName(n), process.Version(1, func(p *process.Plan[instance]) {
			for i := range n {
				step := func(_ context.Context, s instance) (int, error) { do(s.Name, i); return i, nil }
				process.Do(p, fmt.Sprint("step ", i), step, nil)
			}
			process.Ended(p, announce)
		})))
	}
	if err != nil {
		return err
	}
	w, err := worker.New(r, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() { m.ended <- w.Run(ctx) }()
	return nil
}

func announce(s process.Snapshot[instance]) over { return over{s.ID, s.Status} }

// An item is a child of a fan-out.
type item struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

func (s instance) items() []item {
	items := make([]item, s.Items)
	for i := range items {
		items[i] = item{s.Name, i}
	}
	return items
}

// note tells the caller of an instance that it has ended.
func (m *millraceProcess) note(_ context.Context, e over) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.waiting[e.Name]; c != nil {
		delete(m.waiting, e.Name)
		c <- e.Status
	}
	return nil
}

func (m *millraceProcess) Sequence(ctx context.Context, instances, steps, parallel int) error {
	if !slices.Contains(planned, steps) {
		return fmt.Errorf("millrace: no plan of %d steps; want one of %v", steps, planned)
	}
	return repeat(ctx, instances, parallel, func(ctx context.Context) error { return m.run(ctx, sequenceName(steps), 0) })
}

func (m *millraceProcess) FanOut(ctx context.Context, n int) error { return m.run(ctx, "fan-out", n) }

// run runs an instance to its end.
func (m *millraceProcess) run(ctx context.Context, plan string, n int) error {
	name := fmt.Sprintf("instance-%d-%d", os.Getpid(), m.names.Add(1))
	ended := make(chan process.Status, 1)
	m.mu.Lock()
	m.waiting[name] = ended
	m.mu.Unlock()
	if err := process.Open[instance](m.channels, plan).Start(ctx, name, instance{name, n}); err != nil {
		return err
	}
	select {
	case s := <-ended:
		if s != process.Completed {
			return fmt.Errorf("millrace: %s of %s is %s", name, plan, s)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *millraceProcess) Stored(ctx context.Context) (n int64, err error) {
	db, err := sql.Open("sqlite", "file:"+m.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return compactSize(ctx, db)
}

func (m *millraceProcess) Close() error {
	m.stop()
	return errors.Join(<-m.ended, m.store.Close())
}
