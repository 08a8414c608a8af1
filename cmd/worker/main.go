// Command worker does the sample's work: it decides reservations, keeps the views and sends the mails. Start as many
// as you like, on one store.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/millrace-go/millrace/cmd/internal/boot"
	"github.com/millrace-go/millrace/worker"
)

func main() {
	os.Exit(run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}))
}

const about = `A worker of the reservations sample. It decides reservations, keeps the views and sends the mails.
Start as many as you like on one store, each with an -admin address of its own.`

// adminOff as an address means no admin server.
const adminOff = "off"

type program struct {
	boot.Settings
	admin       *string
	concurrency *int
	stdout      io.Writer
}

func run(ctx context.Context, p boot.Process) int {
	flags := boot.NewFlags("worker", about, p.Getenv)
	w := program{
		Settings:    boot.AddSettings(flags),
		admin:       flags.String("admin", "127.0.0.1:9090", "the `ADDRESS` to serve /healthz, /readyz and /metrics, HOST:PORT; port 0 takes a free one, "+adminOff+" means none"),
		concurrency: flags.Int("concurrency", 0, 0, 10_000, "how many `HANDLERS` run at a time, for each queue; 0 leaves it to the worker"),
		stdout:      p.Stdout,
	}
	return boot.Main(ctx, p, flags, w.run)
}

func (p *program) run(ctx context.Context, log *slog.Logger) (err error) {
	ln, err := p.listen(ctx)
	if err != nil {
		return err
	}
	if ln != nil {
		defer func() { _ = ln.Close() }() // closed already, but where the start failed
	}
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
	w, err := p.NewWorker(store, mailer, worker.Config{Logger: log, Metrics: metrics, Concurrency: *p.concurrency})
	if err != nil {
		return err
	}
	parts := []boot.Part{{Name: "worker", Run: w.Run}}
	greeting := "The worker is running"
	if ln != nil {
		// Last in the order of stopping: who watches the worker sees it drain.
		ops := boot.Ops(store, metrics, ctx.Done(), log)
		parts = append(parts, boot.Part{Name: "admin server", Run: func(ctx context.Context) error { return boot.Serve(ctx, ln, ops, log) }})
		greeting += ": health and metrics at " + boot.URL(ln)
	}
	_, _ = fmt.Fprintf(p.stdout, "%s\nMails go to %s. Stop with Ctrl-C.\n", greeting, mails)
	return boot.Run(ctx, parts...)
}

// listen opens the admin server's port; it returns nil when none is wanted.
func (p *program) listen(ctx context.Context) (net.Listener, error) {
	if *p.admin == adminOff {
		return nil, nil
	}
	return boot.Listen(ctx, "admin", *p.admin)
}
