package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/cost"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/worker"
)

// An App is what a program of the sample has in hand when it starts.
type App struct {
	Listener net.Listener // nil for none
	Store    storage.Store
	MailsTo  string          // where mails go, for people
	Stopping <-chan struct{} // closed when the program begins to stop
	Log      *slog.Logger

	seats   int
	mails   reservations.Mails
	prices  *cost.Prices
	metrics *prometheus.Registry
}

// Run opens what the settings name, lets plan make the parts of a program, and runs them until ctx ends. It closes
// ln, which is opened first so that a taken port leaves no files behind; nil is none.
func (s Settings) Run(ctx context.Context, log *slog.Logger, ln net.Listener, plan func(*App) ([]Part, error)) (err error) {
	if ln != nil {
		defer func() { _ = ln.Close() }() // closed already, but where the start failed
	}
	mails, to, err := s.Mails()
	if err != nil {
		return err
	}
	prices, err := s.Prices()
	if err != nil {
		return err
	}
	store, err := s.OpenStore(ctx, log)
	if err != nil {
		return err
	}
	defer Close(store, &err)
	metrics := NewMetrics()
	metrics.MustRegister(cost.Collector(store))
	if bell, ok := storage.As[doorbell.Counter](store); ok {
		metrics.MustRegister(doorbellMetrics(bell)...)
	}
	parts, err := plan(&App{
		Listener: ln, Store: store, MailsTo: to, Stopping: ctx.Done(), Log: log,
		seats: *s.seats, mails: mails, prices: prices, metrics: metrics,
	})
	if err != nil {
		return err
	}
	return Run(ctx, parts...)
}

// Ops returns the handler of what operators ask; see [Ops].
func (a *App) Ops() http.Handler { return Ops(a.Store, a.metrics, a.Stopping, a.Log) }

// Server is a part that serves the listener.
func (a *App) Server(name string, h http.Handler) Part {
	return Part{Name: name, Run: func(ctx context.Context) error { return Serve(ctx, a.Listener, h, a.Log) }}
}

// Worker is a part that handles all of the sample's messages, and tells out at its end what it has asked of the store. A
// concurrency of 0 is the worker's default.
func (a *App) Worker(concurrency int, out io.Writer) (Part, error) {
	channels, err := Channels(a.Store, "/worker")
	if err != nil {
		return Part{}, err
	}
	h := handlers.NewRegistry(channels, handlers.Config{Logger: a.Log})
	reservations.Register(h, a.seats, a.mails)
	w, err := worker.New(a.Store, h, worker.Config{Logger: a.Log, Metrics: a.metrics, Concurrency: concurrency})
	if err != nil {
		return Part{}, err
	}
	commands, err := channels.Routes().CommandQueue(reservations.MakeReservation{}.Kind())
	if err != nil {
		return Part{}, err
	}
	return Part{Name: "worker", Run: func(ctx context.Context) error {
		err := w.Run(ctx)
		return errors.Join(err, cost.Summary(out, a.Store, w.Handled(commands), "command", a.prices))
	}}, nil
}

// doorbellMetrics are the rings between processes.
func doorbellMetrics(bell doorbell.Counter) (all []prometheus.Collector) {
	for what, count := range map[string]func(doorbell.Counts) int64{
		"sent":     func(c doorbell.Counts) int64 { return c.Sent },
		"heard":    func(c doorbell.Counts) int64 { return c.Heard },
		"repeated": func(c doorbell.Counts) int64 { return c.Repeated },
		"refused":  func(c doorbell.Counts) int64 { return c.Refused },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "millrace", Name: "doorbell_rings_total", Help: "Rings between processes.", ConstLabels: prometheus.Labels{"what": what},
		}, func() float64 { return float64(count(bell.Counts())) }))
	}
	return all
}
