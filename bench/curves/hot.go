package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// A place is a kind of store, with a new one for each run.
type place struct {
	name  string
	file  string // name of its table's file
	n     int    // commands
	alone int    // number of commands when one worker at a time consumes the queue, which takes a second to agree on
	ahead int    // how many wait at a time
	start func() (url string, stop func(), err error)
}

// patience bounds one run on a hot date. A run that takes longer is reported as far as it came.
const patience = 10 * time.Minute

// hotBench measures commands for one hot date.
type hotBench struct{ *bench }

func hotTables(b *bench, ctx context.Context) ([]*table, error) { return hotBench{b}.tables(ctx) }

func (b hotBench) tables(ctx context.Context) ([]*table, error) {
	places := []place{
		{name: "SQLite", file: "hot", n: 5 * b.n, alone: 50 * b.n, ahead: 50 * b.n, start: func() (string, func(), error) {
			path, err := b.file()
			return "sqlite:" + path, func() {}, err
		}},
		// Azurite gets slow when many messages wait in its queues. In memory each message is an extent. The garbage
		// collector runs each minute, takes minutes for ten thousand extents and lets nothing else run. In files all
		// messages share fifty extents.
		{name: "Azurite", file: "hot-azurite", n: 5 * b.n, alone: 5 * b.n, ahead: 400, start: func() (string, func(), error) {
			dir, err := os.MkdirTemp(b.dir, "")
			if err != nil {
				return "", nil, err
			}
			server, err := azuretest.LaunchIn(dir)
			if err != nil {
				return "", nil, err
			}
			return "azure:" + server.Account(outside{}).ConnectionString(), server.Stop, nil
		}},
	}
	var all []*table
	for _, p := range places {
		t := p.table()
		err := b.hotOn(ctx, p, t)
		if errors.Is(err, azuretest.ErrNotInstalled) {
			b.say("hot: %s is left out: %v", p.name, err)
			continue
		}
		all = append(all, t)
		if err != nil {
			return all, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return all, nil
}

func (p place) table() *table {
	by := []string{"handling"}
	return &table{Name: p.file, Title: "One hot value object, several worker processes, " + p.name,
		Note: "Every command is for one value object and emits an event that one group hears of. Folding: default settings. One at a time: the same, but one worker consumes the queue, and the others stand by. One by one: " +
			"workers that hold one message. The bare round trip reads the document and writes it back under its ETag, and does nothing else. " +
			"Handed back: messages that a worker gave back, those that it held at the end included.",
		Columns: []string{"handling", "workers", "commands", "commands/s", "writes a command", "lost races a command", "requests a command",
			"row reads a command", "KB of documents a command", "handed back", "doubled or lost"},
		charts: []plot{
			{y: "commands/s", x: "workers", by: by}, {y: "writes a command", x: "workers", by: by}, {y: "lost races a command", x: "workers", by: by},
		}}
}

func (b hotBench) hotOn(ctx context.Context, p place, t *table) error {
	row, err := quietly(ctx, b.bench, func() ([]any, error) { return b.roundTrips(ctx, p) })
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	t.add(row...)
	for _, handling := range []string{oneByOne, folding, oneAtATime} {
		for _, workers := range []int{1, 2, 4, 8} {
			row, err := quietly(ctx, b.bench, func() ([]any, error) { return b.hotRun(ctx, p, handling, workers) })
			if err != nil {
				return fmt.Errorf("%d workers: %w", workers, err)
			}
			if row != nil {
				t.add(row...)
			}
		}
	}
	return nil
}

// The ways in which workers handle the messages of one document.
const (
	oneByOne   = "one by one"
	folding    = "folding"
	oneAtATime = "one at a time"
)

// outside stands for a test, which azuretest needs for its accounts.
type outside struct{ testing.TB }

func (outside) Helper()                        {}
func (outside) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// hotRun returns a row, or none if the store hangs.
func (b hotBench) hotRun(ctx context.Context, p place, handling string, workers int) (row []any, err error) {
	url, stop, err := p.start()
	if err != nil {
		return nil, err
	}
	defer stop()
	rules, s, n := plan{Ticks: true, Told: true}, workerSpec{Store: url}, p.n
	switch handling {
	case oneByOne:
		s.Concurrency, s.MaxInHand, n = 1, 1, max(1, p.n/5)
	case oneAtATime:
		s.Alone, n = true, p.alone
	}
	s.Plan = rules
	w, err := open(ctx, url, rules)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	command := func(int) tick { return tick{Key: theOne, Payload: payload(small)} }
	first := min(n, p.ahead)
	if err := fill(ctx, w.ticks, first, 500, command); err != nil {
		return nil, err
	}
	running, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := hire(running, workers, s, b.errs)
	if err != nil {
		return nil, err
	}
	began, err := c.begin()
	if err == nil {
		err = feed(running, c, n-first, p.ahead-first, func(int) error { return w.ticks.Send(running, command(0)) })
	}
	if err == nil {
		err = waitFor(running, c, w, ticks, n)
	}
	err = errors.Join(err, c.dismiss())
	if err != nil && (ctx.Err() != nil || running.Err() == nil) {
		return nil, err
	}
	doc, err := w.counters.Get(ctx, theOne, "")
	if err != nil && running.Err() != nil {
		b.say("%s, %s, %d workers: the store hangs, no result: %v", p.name, handling, workers, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	handled, _ := c.done()
	var wrong any = int(doc.Value.Count) - n
	if running.Err() != nil {
		wrong = "stopped, too slow"
	}
	x := c.counts
	b.say("%s, %s, %d workers: %d commands in %v", p.name, handling, workers, handled, c.at.Sub(began).Round(time.Millisecond))
	return []any{handling, workers, int(handled), rate(int(handled), c.at.Sub(began)), per(x.Writes, handled), per(x.Lost, handled), per(x.Requests, handled),
		per(x.Reads, handled), per(x.Bytes, handled) / 1e3, int(x.Rewrites), wrong}, nil
}

// roundTrips reads and writes one document, guarded by its ETag.
func (b hotBench) roundTrips(ctx context.Context, p place) ([]any, error) {
	url, stop, err := p.start()
	if err != nil {
		return nil, err
	}
	defer stop()
	w, err := open(ctx, url, plan{Ticks: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.store.Close() }()
	blobs, body := w.store.Blobs("bare"), []byte(payload(2000))
	if _, err := blobs.Put(ctx, theOne, body, storage.Condition{}); err != nil {
		return nil, err
	}
	n, began := 0, time.Now()
	for ; n < b.n && time.Since(began) < b.most; n++ {
		doc, err := blobs.Get(ctx, theOne, "")
		if err != nil {
			return nil, err
		}
		if _, err := blobs.Put(ctx, theOne, doc.Body, storage.Condition{IfMatch: doc.ETag}); err != nil {
			return nil, err
		}
	}
	return []any{"bare round trip", 1, n, rate(n, time.Since(began)), 1.0, 0.0, 2.0, 0.0, float64(len(body)) / 1e3, 0, 0}, nil
}

// feed sends n more messages from several goroutines, so that at most ahead of them wait, beside what waited before.
func feed(ctx context.Context, c *crew, n, ahead int, send func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) || ctx.Err() != nil {
					return
				}
				err := until(ctx, 2*time.Millisecond, func() (bool, error) {
					handled, err := c.done()
					return i-handled < int64(ahead), err
				})
				if err == nil {
					err = send(int(i))
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

const senders = 16

// waitFor waits until workers have handled all messages, some n: the queue is empty. It looks seldom until then.
func waitFor(ctx context.Context, c *crew, w *world, queue string, n int) error {
	looked := time.Now()
	return until(ctx, 5*time.Millisecond, func() (bool, error) {
		handled, err := c.done()
		if err != nil || handled < int64(n) && time.Since(looked) < time.Second {
			return false, err
		}
		looked = time.Now()
		s, err := w.store.Queue(queue).Stats(ctx)
		return err == nil && s == (storage.Stats{}), err
	})
}
