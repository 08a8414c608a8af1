package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// envelope is about how many bytes a small command has in a queue.
const envelope = 390

const hold = time.Hour // the visibility in a drain; nothing comes back

// A depth is a queue that is measured while so many messages wait in it.
type depth struct {
	*bench
	path  string
	store *storage.Store
	q     *storage.Queue
}

func (b *bench) backlog(ctx context.Context) ([]*table, error) {
	t := &table{Name: "backlog", Title: "A backlog by its depth", Note: "A queue on SQLite, by its port: no worker. All but the drain is measured while the depth stays as it is, to a quarter.",
		Columns: []string{"depth", "send, 1 sender/s", "send, 16 senders/s", "receive and delete by 1/s", "receive and delete by 64/s", "stats, ms p50", "drain by 512/s"},
		charts: []plot{
			{y: "send, 16 senders/s", x: "depth", logX: true}, {y: "receive and delete by 64/s", x: "depth", logX: true},
			{y: "stats, ms p50", x: "depth", logX: true}, {y: "drain by 512/s", x: "depth", logX: true},
		}}
	sizes := &table{Name: "backlog-size", Title: "The file of a backlog, in MB", Note: "With its log. Busy: a message is sent and deleted ten times a second meanwhile. " +
		"Each time is " + b.settle.String() + " at most, less when the size is below 26 MB, which a store keeps: its reserve and its log.",
		Columns: []string{"depth", "full", "drained", "drained and busy", "drained and idle", "closed"}}
	for _, n := range powers(1000, b.max) {
		if err := b.backlogOf(ctx, n, t, sizes); err != nil {
			return []*table{t, sizes}, err
		}
		b.say("backlog of %d done", n)
	}
	return []*table{t, sizes}, nil
}

func (b *bench) backlogOf(ctx context.Context, n int, t, sizes *table) error {
	path, err := b.file()
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	d := &depth{b, path, store, store.Queue("backlog")}
	if err := d.send(ctx, n); err != nil {
		return err
	}
	row := []any{n}
	for _, senders := range []int{1, 16} {
		r, err := d.held(ctx, n, func(m int) (sent int, took time.Duration, err error) {
			sent, took, err = b.spread(senders, m, func() error { return d.send(ctx, 1) })
			if err == nil {
				_, _, err = d.drain(ctx, sent, 512, hold)
			}
			return sent, took, err
		})
		if err != nil {
			return err
		}
		row = append(row, r)
	}
	for _, batch := range []int{1, 64} {
		r, err := d.held(ctx, n, func(m int) (gone int, took time.Duration, err error) {
			gone, took, err = d.drain(ctx, m, batch, b.most)
			if err == nil {
				err = d.send(ctx, gone)
			}
			return gone, took, err
		})
		if err != nil {
			return err
		}
		row = append(row, r)
	}
	stats, err := quietly(ctx, b, func() (float64, error) { return d.stats(ctx) })
	if err != nil {
		return err
	}
	row = append(row, stats)
	full := size(path)
	waiting := true
	drained, err := quietly(ctx, b, func() (float64, error) {
		did, all := 0, time.Duration(0)
		for did < b.many() {
			if !waiting {
				if err := d.send(ctx, n); err != nil {
					return 0, err
				}
			}
			_, took, err := d.drain(ctx, n, 512, hold)
			if err != nil {
				return 0, err
			}
			did, all, waiting = did+n, all+took, false
		}
		return rate(did, all), nil
	})
	if err != nil {
		return err
	}
	t.add(append(row, drained)...)
	files := []any{n, full, size(path)}
	for _, busy := range []bool{true, false} {
		mb, err := d.wait(ctx, busy)
		if err != nil {
			return err
		}
		files = append(files, mb)
	}
	if err := store.Close(); err != nil {
		return err
	}
	sizes.add(append(files, size(path))...)
	return os.Remove(path) // the next one is ten times as large
}

// held returns the rate of an operation that changes the depth by at most a quarter. It restores the depth after each
// round and doesn't count that. It repeats the rounds until there are enough operations or the time is over.
func (d *depth) held(ctx context.Context, n int, change func(m int) (did int, took time.Duration, err error)) (float64, error) {
	return quietly(ctx, d.bench, func() (float64, error) {
		all, spent := 0, time.Duration(0)
		for all < d.many() && spent < d.most {
			did, took, err := change(min(max(1, n/4), d.many()-all))
			if err != nil {
				return 0, err
			}
			all, spent = all+did, spent+took
		}
		return rate(all, spent), nil
	})
}

var batch = slices.Repeat([]storage.Message{{Body: make([]byte, envelope)}}, 500)

// send adds messages in batches.
func (d *depth) send(ctx context.Context, n int) error {
	for ; n > 0; n -= len(batch) {
		if err := d.q.Send(ctx, batch[:min(n, len(batch))]); err != nil {
			return err
		}
	}
	return nil
}

// drain receives and deletes n messages in batches, or as many as the time allows.
func (d *depth) drain(ctx context.Context, n, batch int, most time.Duration) (gone int, took time.Duration, err error) {
	began := time.Now()
	for gone < n && time.Since(began) < most {
		got, err := d.q.Receive(ctx, min(batch, n-gone), hold)
		if err == nil && len(got) == 0 {
			err = errors.New("the queue is empty too early")
		}
		if err != nil {
			return gone, 0, err
		}
		receipts := make([]storage.Receipt, len(got))
		for i, x := range got {
			receipts[i] = x.Receipt
		}
		if err := d.q.Delete(ctx, receipts); err != nil {
			return gone, 0, err
		}
		gone += len(got)
	}
	return gone, time.Since(began), nil
}

// stats returns the median time of a call of Stats, in milliseconds.
func (d *depth) stats(ctx context.Context) (float64, error) {
	var times []float64
	for began := time.Now(); len(times) < 50 && (len(times) == 0 || time.Since(began) < d.most); {
		one := time.Now()
		if _, err := d.q.Stats(ctx); err != nil {
			return 0, err
		}
		times = append(times, micros(time.Since(one))/1e3)
	}
	return median(times), nil
}

const normal = 26 // MB that a store keeps for itself after much work: 8 in reserve, 16 of log, and the part in use

// wait waits until the file is small again, and returns its size in MB.
func (d *depth) wait(ctx context.Context, busy bool) (float64, error) {
	ended := time.Now().Add(d.settle)
	err := until(ctx, 100*time.Millisecond, func() (bool, error) {
		if size(d.path) < normal || time.Now().After(ended) {
			return true, nil
		}
		if !busy {
			return false, nil
		}
		if err := d.send(ctx, 1); err != nil {
			return false, err
		}
		_, _, err := d.drain(ctx, 1, 1, hold)
		return false, err
	})
	return size(d.path), err
}

// size is the size of a store on the disk, in MB.
func size(path string) (mb float64) {
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(path + end); err == nil {
			mb += float64(info.Size()) / 1e6
		}
	}
	return mb
}
