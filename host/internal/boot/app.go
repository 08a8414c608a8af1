package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/cost"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/active"
)

// An App is what a program of the sample works with once it has started.
type App struct {
	Listener net.Listener // nil for none
	Store    *storage.Store
	Seats    int             // of the restaurant
	MailsTo  string          // where mails go, in words for people
	Stopping <-chan struct{} // closed when the program begins to stop
	Log      *slog.Logger

	mails   reservations.Mails
	active  int // how many workers consume a queue at a time, or 0
	prices  *cost.Prices
	metrics *prometheus.Registry
	handled func() int64 // counts commands; nil where no worker runs
	healthy func() error // health of the worker; nil where no worker runs
	sent    atomic.Int64 // commands
}

// Run opens what the settings name, lets plan make the parts of a program, and runs them until ctx ends. At the end
// it prints what the program has asked of the store.
//
// Run closes ln, which may be nil. Open the listener before the call, so that a taken port leaves no files behind.
func (s Settings) Run(ctx context.Context, log *slog.Logger, ln net.Listener, out io.Writer, plan func(*App) ([]Part, error)) (err error) {
	if ln != nil {
		defer func() { _ = ln.Close() }() // fails only where the server has closed it already
	}
	mails, to, err := s.Mails()
	if err != nil {
		return err
	}
	prices, err := s.Prices()
	if err != nil {
		return err
	}
	store, rings, err := s.OpenStore(ctx, log)
	if err != nil {
		return err
	}
	metrics := NewMetrics()
	app := &App{
		Listener: ln, Store: store, Seats: *s.seats, MailsTo: to, Stopping: ctx.Done(), Log: log,
		mails: mails, active: *s.active, prices: prices, metrics: metrics,
	}
	summary := sync.OnceValue(func() error { return app.summary(out) })
	defer func() { err = errors.Join(err, summary()) }() // runs last, because closing the store makes requests, too
	defer Close(store, &err)
	metrics.MustRegister(cost.Collector(store))
	if rings != nil {
		metrics.MustRegister(doorbellMetrics(rings)...)
	}
	parts, err := plan(app)
	if err != nil {
		return err
	}
	beforeExit(ctx, func() { _ = summary() })
	return Run(ctx, parts...)
}

// Ops returns the handler for operators; see [Ops].
func (a *App) Ops() http.Handler {
	return Ops(a.Store, a.metrics, a.Stopping, a.Log, func() error {
		if a.healthy == nil {
			return nil
		}
		return a.healthy()
	})
}

// Server is a part that serves the listener.
func (a *App) Server(name string, h http.Handler) Part {
	return Part{Name: name, Run: func(ctx context.Context) error { return Serve(ctx, a.Listener, h, a.Log) }}
}

// CountSent counts a command that this program has sent.
func (a *App) CountSent() { a.sent.Add(1) }

// summary prints the requests to the store for each command that was handled, or sent where no worker runs.
func (a *App) summary(out io.Writer) error {
	if a.handled != nil {
		return cost.Summary(out, a.Store, a.handled(), "command handled", a.prices)
	}
	return cost.Summary(out, a.Store, a.sent.Load(), "command sent", a.prices)
}

// Worker is a part that handles all of the sample's messages. A concurrency of 0 is the worker's default. The setting
// of active workers doesn't apply to the queue of the mails, because its handlers mostly wait.
func (a *App) Worker(concurrency int) (Part, error) {
	channels, err := Channels(a.Store, "/worker")
	if err != nil {
		return Part{}, err
	}
	h := handlers.NewRegistry(channels, handlers.Config{Logger: a.Log})
	reservations.Register(h, a.Seats, a.mails)
	cfg := worker.Config{Logger: a.Log, Metrics: a.metrics, Concurrency: concurrency, Queues: map[string]worker.QueueConfig{}}
	for _, queue := range h.Queues() {
		if a.active > 0 && queue != reservations.MailQueue {
			cfg.Queues[queue] = worker.QueueConfig{Turn: active.Workers(a.active)}
		}
	}
	w, err := worker.New(h, cfg)
	if err != nil {
		return Part{}, err
	}
	commands, err := channels.Routes().CommandQueue(reservations.MakeReservation{}.Kind())
	if err != nil {
		return Part{}, err
	}
	a.handled = func() int64 { return w.Handled(commands) }
	a.healthy = w.Healthy
	return Part{Name: "worker", Run: w.Run}, nil
}

// doorbellMetrics are the metrics of the rings between processes.
func doorbellMetrics(rings func() doorbell.Counts) (all []prometheus.Collector) {
	for what, count := range map[string]func(doorbell.Counts) int64{
		"sent":     func(c doorbell.Counts) int64 { return c.Sent },
		"accepted": func(c doorbell.Counts) int64 { return c.Accepted },
		"repeated": func(c doorbell.Counts) int64 { return c.Repeated },
		"refused":  func(c doorbell.Counts) int64 { return c.Refused },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "millrace", Name: "doorbell_rings_total", Help: "Rings between processes.", ConstLabels: prometheus.Labels{"what": what},
		}, func() float64 { return float64(count(rings())) }))
	}
	return all
}
