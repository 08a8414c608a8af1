// Command web serves the sample: a restaurant's tables, for people and for programs. With no flags at all it does
// the whole job on one machine: it keeps everything in one file below data/, and runs a worker in its own process.
//
//	go run ./cmd/web
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/cmd/internal/boot"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

func main() {
	os.Exit(run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}))
}

const about = `The web side of the reservations sample. It takes reservations and shows what became of them.
Start as many as you like on one store.`

type program struct {
	boot.Settings
	addr   *string
	worker *bool
	stdout io.Writer
}

func run(ctx context.Context, p boot.Process) int {
	flags := boot.NewFlags("web", about, p.Getenv)
	web := program{
		Settings: boot.AddSettings(flags),
		addr:     flags.String("addr", ":8080", "the `ADDRESS` to serve, HOST:PORT or :PORT; port 0 takes a free one"),
		worker:   flags.Bool("worker", true, "run a worker in this process; -worker=false leaves the work to cmd/worker"),
		stdout:   p.Stdout,
	}
	return boot.Main(ctx, p, flags, web.run)
}

func (p *program) run(ctx context.Context, log *slog.Logger) (err error) {
	ln, err := boot.Listen(ctx, "addr", *p.addr)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }() // closed already, but where the start failed
	mailer, mails, err := p.Mailer()
	if err != nil {
		return err
	}
	store, err := p.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer boot.Close(store, &err)

	metrics := boot.NewMetrics()
	handler, err := newHandler(ctx, store, metrics, log)
	if err != nil {
		return err
	}
	parts := []boot.Part{{Name: "web server", Run: func(ctx context.Context) error { return boot.Serve(ctx, ln, handler, log) }}}
	if *p.worker {
		w, err := p.NewWorker(store, mailer, worker.Config{Logger: log, Metrics: metrics})
		if err != nil {
			return err
		}
		parts = append(parts, boot.Part{Name: "worker", Run: w.Run})
	}
	p.greet(ln, mails)
	return boot.Run(ctx, parts...)
}

// newHandler puts the site and what operators ask together. stopping ends the site's streams as soon as the program
// begins to stop.
func newHandler(stopping context.Context, store storage.Store, metrics *prometheus.Registry, log *slog.Logger) (http.Handler, error) {
	channels, err := boot.Channels(store, "/web")
	if err != nil {
		return nil, err
	}
	pages, err := site.New(channels, site.Config{Logger: log, Stopping: stopping.Done()})
	if err != nil {
		return nil, err
	}
	ops := boot.Ops(store, metrics, stopping.Done(), log)
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/healthz", ops)
	mux.Handle("/readyz", ops)
	mux.Handle("/metrics", ops)
	return mux, nil
}

// greet tells a person where to look. Whoever reads programs' output line by line finds the address at the end of
// the first line.
func (p *program) greet(ln net.Listener, mails string) {
	worker := "runs in this process"
	if !*p.worker {
		worker = "does not run here; start one with: go run ./cmd/worker"
	}
	_, _ = fmt.Fprintf(p.stdout, "Book a table at %s\nMails go to %s. The worker %s. Stop with Ctrl-C.\n", boot.URL(ln), mails, worker)
}
