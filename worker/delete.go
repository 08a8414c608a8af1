package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

const deleteBatch = 512

// deletions are handled messages that wait to be deleted. One goroutine deletes them, while there are any: as many at
// once as have come together.
type deletions struct {
	setup
	finisher *finisher
	run      func() // the goroutine

	mu      sync.Mutex
	waiting []*message
	running bool
	all     sync.WaitGroup

	// These fields belong to the goroutine.
	batch    []*message
	receipts []storage.Receipt
}

// newDeletions returns deletions. They go on until ctx ends.
func newDeletions(ctx context.Context, with setup, f *finisher) *deletions {
	d := &deletions{setup: with, finisher: f}
	d.run = func() { d.deleteHandled(ctx) }
	return d
}

// add adds a handled message. It doesn't block.
func (d *deletions) add(m *message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, m)
	if !d.running {
		d.running = true
		d.all.Add(1)
		go d.run()
	}
}

// next takes the messages that wait, up to deleteBatch. When there are none it returns none, and the goroutine ends.
func (d *deletions) next() ([]*message, []storage.Receipt) {
	clear(d.batch) // it would keep the messages' bodies
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.waiting), deleteBatch)
	d.running = n > 0
	d.batch = append(d.batch[:0], d.waiting[:n]...)
	d.waiting = slices.Delete(d.waiting, 0, n)
	d.receipts = d.receipts[:0]
	return d.batch, d.receipts
}

// deleteHandled deletes handled messages until none wait.
func (d *deletions) deleteHandled(ctx context.Context) {
	defer d.all.Done()
	for {
		batch, receipts := d.next()
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			receipts = append(receipts, m.claim.settle())
		}
		d.receipts = receipts
		d.delete(ctx, batch, receipts)
	}
}

// delete deletes handled messages and ends their deliveries.
func (d *deletions) delete(ctx context.Context, batch []*message, receipts []storage.Receipt) {
	call, cancel := context.WithTimeout(ctx, outcomeTime)
	err := d.q.Delete(call, receipts)
	cancel()
	if err != nil && !isStale(err) {
		// The messages come back when their visibility ends; replay records and ReactOnce's notes recognise them.
		d.log.LogAttrs(ctx, slog.LevelError, "can't delete handled messages; they will be delivered again", slog.Int("messages", len(batch)), slog.Any("error", err))
		d.stats.unavailable.Add(float64(len(batch)))
		for _, m := range batch {
			d.finisher.released(m)
		}
		return
	}
	var stale *storage.StaleError
	errors.As(err, &stale)
	var bodies []*message
	for i, m := range batch {
		switch {
		case stale != nil && slices.Contains(stale.Receipts, receipts[i]): // another worker has it, and needs its body
			d.finisher.lose(m)
		case m.envelope.DataRef != "":
			bodies = append(bodies, m)
		default:
			d.finisher.done(m)
			d.finisher.released(m)
		}
	}
	for _, m := range bodies { // each body takes a request
		d.finisher.done(m)
		d.finisher.dropBody(ctx, m)
		d.finisher.released(m)
	}
}

// wait waits until all messages are deleted. None may be added meanwhile.
func (d *deletions) wait() { d.all.Wait() }
