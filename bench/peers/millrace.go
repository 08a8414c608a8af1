package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// job is a command. With only a reaction to it, it is what other systems call a job.
type job struct{ child.Job }

func (job) Kind() channel.Kind { return "bench.job.v1" }

// done is the event of the full path's decision.
type done struct{ child.Job }

func (done) Kind() channel.Kind { return "bench.done.v1" }

// sum is the full path's value object, and its view.
type sum struct {
	Count int `json:"count"`
	Last  int `json:"last"`
}

// millrace is a client of Millrace with all its defaults.
type millrace struct {
	server   string // the socket of the Redis server, if there is one
	store    *storage.Store
	channels *channel.Channels
	sender   *channel.Sender[job]
	register func(h *handlers.Registry, handle func(child.Job))
}

// A place opens the store of a measurement.
type place func(ctx context.Context, spec child.Spec) (*storage.Store, error)

func onSQLite(ctx context.Context, spec child.Spec) (*storage.Store, error) {
	return sqlite.Open(ctx, filepath.Join(spec.Dir, "millrace.db"))
}

func openMillrace(ctx context.Context, spec child.Spec, on place, routes ...channel.Route) (*millrace, error) {
	all, err := channel.NewRoutes(append(routes, channel.Command[job]("jobs"))...)
	if err != nil {
		return nil, err
	}
	m := &millrace{server: spec.Addr}
	if m.store, err = on(ctx, spec); err != nil {
		return nil, err
	}
	if m.channels, err = channel.New(m.store, all, "/bench"); err != nil {
		return nil, err
	}
	m.sender, err = channel.NewSender[job](m.channels)
	return m, err
}

// openReact is a reaction that does nothing but count.
func openReact(on place) openFunc {
	return func(ctx context.Context, spec child.Spec) (child.Client, error) {
		m, err := openMillrace(ctx, spec, on)
		if err != nil {
			return nil, err
		}
		m.register = func(h *handlers.Registry, handle func(child.Job)) {
			handlers.React(h, "jobs", func(_ context.Context, j job) error { handle(j.Job); return nil })
		}
		return m, nil
	}
}

// openCQRS opens the full path: a command is decided on one of 365 value objects, and its event folded into one of as
// many views. The view's function is the handler.
func openCQRS(on place) openFunc {
	return func(ctx context.Context, spec child.Spec) (child.Client, error) {
		m, err := openMillrace(ctx, spec, on, channel.Event[done]("sums"))
		if err != nil {
			return nil, err
		}
		m.decide()
		return m, nil
	}
}

// decide makes the client handle by the full path.
func (m *millrace) decide() {
	key := func(j child.Job) string { return fmt.Sprintf("day-%d", j.N%365) }
	add := func(s sum, j child.Job) sum { return sum{Count: s.Count + 1, Last: j.N} }
	days := values.New(m.channels, "days", values.Config[sum]{})
	sums := views.New(m.channels, "sums", views.Config[sum]{})
	m.register = func(h *handlers.Registry, handle func(child.Job)) {
		handlers.Decide(h, days, func(j job) string { return key(j.Job) }, func(s sum, j job) (sum, []channel.Message, error) {
			return add(s, j.Job), []channel.Message{done(j)}, nil
		}, done{})
		views.Project(h, sums, func(d done) string { return key(d.Job) }, func(s sum, d done) sum {
			handle(d.Job)
			return add(s, d.Job)
		})
	}
}

func (m *millrace) Send(ctx context.Context, j child.Job) error { return m.sender.Send(ctx, job{j}) }

func (m *millrace) Fill(ctx context.Context, jobs []child.Job) error {
	all := make([]job, len(jobs))
	for i, j := range jobs {
		all[i] = job{j}
	}
	return m.sender.Send(ctx, all...)
}

func (m *millrace) Start(ctx context.Context, handle func(child.Job)) error {
	h := handlers.NewRegistry(m.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	m.register(h, handle)
	w, err := worker.New(h, worker.Config{})
	if err != nil {
		return err
	}
	go func() { child.Fail(ctx, w.Run(ctx)) }()
	return nil
}

// Operations counts a server's commands as it does itself, so that those within a script count, too.
func (m *millrace) Operations(ctx context.Context) (int64, error) {
	if m.server != "" {
		return redisInfo(ctx, m.server, "total_commands_processed")
	}
	var n int64
	for _, r := range m.store.Requests() {
		n += r.Count
	}
	return n, nil
}

// Memory implements child.Sized.
func (m *millrace) Memory(ctx context.Context) (int64, error) {
	return redisInfo(ctx, m.server, usedMemory)
}
