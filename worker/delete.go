package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const deleteBatch = 512

// deletions are handled messages that wait to be deleted. One goroutine deletes them, while there are any: as many at
// once as have come together.
type deletions struct {
	run func() // the goroutine

	mu      sync.Mutex
	waiting []*message
	running bool
	all     sync.WaitGroup

	// These fields belong to the goroutine.
	batch    []*message
	receipts []storage.Receipt
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
func (s *settler) deleteHandled(ctx context.Context) {
	defer s.deletes.all.Done()
	for {
		batch, receipts := s.deletes.next()
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			receipts = append(receipts, m.claim.settle())
		}
		s.deletes.receipts = receipts
		s.delete(ctx, batch, receipts)
	}
}

// delete deletes handled messages and ends their deliveries.
func (s *settler) delete(ctx context.Context, batch []*message, receipts []storage.Receipt) {
	call, cancel := context.WithTimeout(ctx, outcomeTime)
	err := s.q.Delete(call, receipts)
	cancel()
	if err != nil && !isStale(err) {
		// The messages come back when their visibility ends; replay records and ReactOnce's notes recognise them.
		s.log.LogAttrs(ctx, slog.LevelError, "can't delete handled messages; they will be delivered again", slog.Int("messages", len(batch)), slog.Any("error", err))
		s.stats.unavailable.Add(float64(len(batch)))
		for _, m := range batch {
			s.released(m)
		}
		return
	}
	var stale *storage.StaleError
	errors.As(err, &stale)
	var bodies []*message
	for i, m := range batch {
		switch {
		case stale != nil && slices.Contains(stale.Receipts, receipts[i]): // another worker has it, and needs its body
			s.lose(m)
		case m.envelope.DataRef != "":
			bodies = append(bodies, m)
		default:
			s.done(m)
			s.released(m)
		}
	}
	for _, m := range bodies { // each body takes a request
		s.done(m)
		s.dropBody(ctx, m)
		s.released(m)
	}
}

// done counts a message that has been handled and deleted.
func (s *settler) done(m *message) {
	s.report.logSuccess(m)
	s.stats.done.Inc()
	s.stats.kindOf(m).done.Add(1)
	if e := &m.envelope; !e.Time.IsZero() {
		s.stats.lag.Observe(max(0, time.Since(later(e.Time, e.Due))).Seconds())
	}
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dropBody deletes the claim-checked body of a message that has been deleted.
func (s *settler) dropBody(ctx context.Context, m *message) {
	if m.envelope.DataRef == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	if err := s.registry.Channels.Outbox().DeleteBody(ctx, m.envelope.DataRef); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "can't delete a claim-checked body; it stays in the store", slog.Any("error", err))
	}
}

// wait waits until all outcomes are recorded. No delivery may be concluded meanwhile.
func (s *settler) wait() { s.deletes.all.Wait() }
