// Command web serves the sample: a restaurant's tables, for people and for programs. Without flags it does the whole
// job on one machine: it keeps everything in one file below data/, and runs a worker in its own process.
//
//	go run ./cmd/web
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	boot "github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

func main() {
	os.Exit(run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}))
}

const about = `The web side of the reservations sample. It takes reservations and shows their results.
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
		addr:     flags.String("addr", ":8080", "the `ADDRESS` to serve, HOST:PORT or :PORT; port 0 takes a free port"),
		worker:   flags.Bool("worker", true, "run a worker in this process; -worker=false leaves the work to cmd/worker"),
		stdout:   p.Stdout,
	}
	return boot.Main(ctx, p, flags, web.run)
}

func (p *program) run(ctx context.Context, log *slog.Logger) error {
	ln, err := boot.Listen(ctx, "addr", *p.addr)
	if err != nil {
		return err
	}
	return p.Run(ctx, log, ln, p.stdout, p.parts)
}

func (p *program) parts(app *boot.App) ([]boot.Part, error) {
	handler, err := newHandler(app)
	if err != nil {
		return nil, err
	}
	parts := []boot.Part{app.Server("server", handler)}
	worker := "does not run here; start one with the same -store: go run ./cmd/worker"
	if *p.worker {
		w, err := app.Worker(0)
		if err != nil {
			return nil, err
		}
		parts = append(parts, w)
		worker = "runs in this process"
	}
	// A program that reads this output line by line finds the address at the end of the first line.
	_, _ = fmt.Fprintf(p.stdout, "Book a table at %s\nMails go to %s. The worker %s. Stop with Ctrl-C.\n", boot.URL(app.Listener), app.MailsTo, worker)
	return parts, nil
}

// newHandler combines the site with the operators' addresses.
func newHandler(app *boot.App) (http.Handler, error) {
	channels, err := boot.Channels(app.Store, "/web")
	if err != nil {
		return nil, err
	}
	pages, err := site.New(channels, site.Config{Logger: app.Log, Stopping: app.Stopping, Seats: app.Seats, Sent: app.CountSent})
	if err != nil {
		return nil, err
	}
	ops := app.Ops()
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/healthz", ops)
	mux.Handle("/readyz", ops)
	mux.Handle("/metrics", ops)
	return mux, nil
}
