// Command search makes an offer by a split within a split. An offer has three searches, and each finds parts to ask
// for. One search fails, which the plan tolerates. The last part to end ends its search, and the last search ends the
// split, in one write each, so each of the two gathers once.
//
//	go run ./examples/search
//	go run ./examples/search -svg > timeline.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

func main() {
	svg := flag.Bool("svg", false, "print the timeline as a picture")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func routes() (*channel.Routes, error) { return channel.NewRoutes(process.Route("offer")) }

func register(h *handlers.Registry) error {
	return process.Register(h, "offer", process.Version(1, offer))
}

// bicycle is what the program offers.
var bicycle = Offer{Wanted: []string{"frame", "wheels", "brakes"}}

// run makes an offer, in a store of its own, and prints it.
func run(ctx context.Context, out io.Writer, svg bool) (err error) {
	dir, err := os.MkdirTemp("", "search")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "search.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	r, err := routes()
	if err != nil {
		return err
	}
	channels, err := channel.New(store, r, "/search")
	if err != nil {
		return err
	}
	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err := register(h); err != nil {
		return err
	}
	w, err := worker.New(h, worker.Config{})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()

	offers := process.Open[Offer](channels, "offer")
	if err := offers.Start(ctx, "bicycle", bicycle); err != nil {
		return err
	}
	s, err := offers.Await(ctx, "bicycle")
	if err != nil {
		return err
	}
	look, err := process.Look(store, "offer", "/search")
	if err != nil {
		return err
	}
	stream, err := look.Stream(ctx, "bicycle")
	switch {
	case err != nil:
		return err
	case svg:
		_, err = io.WriteString(out, picture(stream))
	default:
		_, err = fmt.Fprintf(out, "%s\nThe offer %d has %v, for %d euros. It is %s.\n", text(stream), s.State.Number, s.State.Things, s.State.Euros, s.Status)
	}
	return err
}

// text writes the steps down, with their times since the start.
func text(s *process.Stream) (all string) {
	for _, x := range s.Lines {
		since := func(t time.Time) time.Duration { return t.Sub(s.Created).Round(pace) }
		all += fmt.Sprintf("%-28s %-9s %6v to %v\n", fmt.Sprintf("%*s%s", 2*x.Depth, "", x.Name), x.Status, since(x.Created), since(x.Timestamp))
	}
	return all
}
