package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// master runs the verbs that aren't a worker's.
func master(verb string, args []string) (err error) {
	flags := flag.NewFlagSet(strings.TrimSpace("gate "+verb), flag.ExitOnError)
	url := flags.String("store", "sqlite:data/gate.db", "the `URL` of the store")
	jobs := flags.Int("jobs", 2000, "the `NUMBER` of jobs")
	workers := flags.Int("workers", 8, "the `NUMBER` of workers to start")
	_ = flags.Parse(args) // an error ends the process
	if *jobs < 1 || *workers < 1 {
		return errors.New("want at least one job and one worker")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, *url, storage.OpenConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	switch verb {
	case "prepare":
		return prepare(ctx, store, *jobs)
	case "result":
		return result(ctx, store, *jobs)
	}
	return race(ctx, store, *url, *workers, *jobs)
}

// race prepares the jobs, starts the workers, opens the gate when all are ready, and prints the result.
func race(ctx context.Context, store *storage.Store, url string, workers, jobs int) error {
	if err := prepare(ctx, store, jobs); err != nil {
		return err
	}
	var pack []*exec.Cmd
	var outs []io.Reader
	defer func() {
		for _, h := range pack {
			_ = h.Process.Signal(os.Interrupt) // it stops in order
		}
		for _, h := range pack {
			_ = h.Wait() // one that was killed has left its jobs to the others
		}
	}()
	for i := range workers {
		h, out, err := startHound(url, strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		pack, outs = append(pack, h), append(outs, out)
	}
	for _, out := range outs {
		if err := awaitReady(out); err != nil {
			return err
		}
	}
	fmt.Printf("%d workers are ready, and %d jobs wait. The gate opens.\n\n", workers, jobs)
	if err := gate.At(store, start).Open(ctx, gate.Note{Why: "all are ready"}); err != nil {
		return err
	}
	return result(ctx, store, jobs)
}

// prepare closes the gate, forgets the last result, and sends jobs.
func prepare(ctx context.Context, store *storage.Store, jobs int) error {
	if err := gate.At(store, start).Close(ctx, gate.Note{Why: "jobs are prepared"}); err != nil {
		return err
	}
	var old []string
	for row, err := range store.Table(table).Query(ctx, "jobs", storage.RowRange{}) {
		if err != nil {
			return err
		}
		old = append(old, row.Key)
	}
	if err := store.Table(table).DeleteRows(ctx, "jobs", old); err != nil {
		return err
	}
	r, err := routes()
	if err != nil {
		return err
	}
	channels, err := channel.New(store, r, "/gate")
	if err != nil {
		return err
	}
	var backlog []channel.Message
	for i := range jobs {
		backlog = append(backlog, Job{ID: i + 1})
	}
	return channels.Send(ctx, backlog...)
}

// startHound starts this program once more, as a worker. It also returns what the worker prints.
func startHound(url, name string) (*exec.Cmd, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	h := exec.Command(self, "worker", "-store", url, "-name", name, "-admin", "off", "-log", "warn")
	h.Stderr = os.Stderr
	out, err := h.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return h, out, h.Start()
}

// awaitReady waits until a worker says that it is ready.
func awaitReady(out io.Reader) error {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "is ready.") {
			go io.Copy(io.Discard, out)
			return nil
		}
	}
	return errors.New("a worker ended before it was ready")
}

// result waits until all jobs have numbers, and prints when each worker began. It fails if a number came twice.
func result(ctx context.Context, store *storage.Store, jobs int) error {
	done, err := numbered(ctx, store)
	for again := time.NewTicker(250 * time.Millisecond); err == nil && len(done) < jobs; done, err = numbered(ctx, store) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs have numbers: %w", len(done), jobs, context.Cause(ctx))
		}
	}
	if err != nil {
		return err
	}
	opened, err := gate.At(store, start).State(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(done, func(a, b Numbered) int { return int(a.Number - b.Number) })
	byWorker, twice := map[string][]Numbered{}, 0
	for i, d := range done {
		byWorker[d.Worker] = append(byWorker[d.Worker], d)
		if i > 0 && done[i-1].Number == d.Number {
			twice++
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "worker\tbegan after ms\tjobs\tfirst number\tlast number\t")
	for _, worker := range slices.Sorted(maps.Keys(byWorker)) {
		own := byWorker[worker]
		first := slices.MinFunc(own, func(a, b Numbered) int { return a.Began.Compare(b.Began) })
		after := first.Began.Sub(opened.Since).Milliseconds()
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t\n", worker, after, len(own), own[0].Number, own[len(own)-1].Number)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(done) > jobs || twice > 0 {
		return fmt.Errorf("%d rows of %d jobs, and %d numbers that came twice", len(done), jobs, twice)
	}
	fmt.Printf("\nEach of %d jobs has one number, and no number came twice.\n", jobs)
	return nil
}

// numbered reads the jobs that have numbers.
func numbered(ctx context.Context, store *storage.Store) (all []Numbered, err error) {
	for row, err := range store.Table(table).Query(ctx, "jobs", storage.RowRange{}) {
		if err != nil {
			return nil, err
		}
		var n Numbered
		if err := json.Unmarshal(row.Data, &n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
