// Command worker does the sample's work: it decides reservations, keeps the views and sends the mails. You can start
// as many as you like on one store.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	boot "github.com/millrace-go/millrace/host"
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
		admin:       flags.String("admin", "127.0.0.1:9090", "the `ADDRESS` to serve /healthz, /readyz and /metrics, HOST:PORT; port 0 takes a free port, "+adminOff+" disables it"),
		concurrency: flags.Int("concurrency", 0, 0, 10_000, "the number of `HANDLERS` that run at a time, for each queue; 0 means the worker's default"),
		stdout:      p.Stdout,
	}
	return boot.Main(ctx, p, flags, w.run)
}

func (p *program) run(ctx context.Context, log *slog.Logger) (err error) {
	var ln net.Listener
	if *p.admin != adminOff {
		if ln, err = boot.Listen(ctx, "admin", *p.admin); err != nil {
			return err
		}
	}
	return p.Run(ctx, log, ln, p.stdout, p.parts)
}

func (p *program) parts(app *boot.App) ([]boot.Part, error) {
	w, err := app.Worker(*p.concurrency)
	if err != nil {
		return nil, err
	}
	parts := []boot.Part{w}
	greeting := "The worker is starting"
	if app.Listener != nil {
		// The admin server stops last, so that a monitor sees the worker drain.
		parts = append(parts, app.Server("admin server", app.Ops()))
		greeting += ": health and metrics at " + boot.URL(app.Listener)
	}
	_, _ = fmt.Fprintf(p.stdout, "%s\nMails go to %s. Stop with Ctrl-C.\n", greeting, app.MailsTo)
	return parts, nil
}
