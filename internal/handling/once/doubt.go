package once

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/storage"
)

// noteOutcome notes that the effect of this run has happened, or may have.
func (n *note) noteOutcome(ctx context.Context) error {
	if n.done {
		return n.put(ctx, noteRow{Done: true}, storage.Condition{})
	}
	return n.noteUnknown(ctx)
}

// noteUnknown notes that the effect of this run may have happened. It fails while another run has the note, which may
// still take it back.
func (n *note) noteUnknown(ctx context.Context) error {
	err := n.put(ctx, n.unknown, storage.Condition{IfMatch: n.etag})
	if !storage.LostRace(err) && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	mark, etag, err := n.get(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return n.put(ctx, n.unknown, storage.Condition{IfAbsent: true})
	case err != nil:
		return err
	case mark.Holder == n.holder: // the answer of its last renewal was lost
		return n.put(ctx, n.unknown, storage.Condition{IfMatch: etag})
	case mark.Holder != "":
		return errTaken()
	}
	return nil // it is done, or its note says so already
}

// doubts are the runs that are done, or of unknown outcome, and whose notes this process could not write, by key.
// No delivery may run again, or by a guess. The process goes on trying for a day. The time between two tries is so
// short that no copy in another process takes the note over meanwhile, once the store is back.
type doubts struct {
	mu   sync.Mutex
	kept *lru.Cache[*note]
}

func newDoubts() *doubts {
	return &doubts{kept: lru.New[*note](mostDoubts, mostDoubts)}
}

// of returns the run of a message whose note could not be written, or nil.
func (d *doubts) of(n *note) *note {
	d.mu.Lock()
	defer d.mu.Unlock()
	if by, ok := d.kept.Get(n.key); ok && by.content == n.content {
		return by
	}
	return nil
}

// keep keeps a run, and tries to write its note.
func (d *doubts) keep(n *note) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept.Add(n.key, n, 1)
	d.noteAfter(firstTry, n, time.Now().Add(triesFor))
}

const (
	mostDoubts = 4096           // runs that a process keeps
	triesFor   = 24 * time.Hour // for so long a process tries to write the note of a run
	firstTry   = lease / 12     // until the first try
)

// noteAfter tries to write the note of a run after some time, and again until end, unless the run is forgotten by then.
func (d *doubts) noteAfter(wait time.Duration, n *note, end time.Time) {
	time.AfterFunc(wait, func() {
		if d.of(n) != n {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), noteTime)
		defer cancel()
		switch {
		case n.noteOutcome(ctx) == nil:
			d.forget(n)
		case time.Now().Before(end): // else the store may have been closed for good
			d.noteAfter(min(2*wait, look), n, end)
		}
	})
}

func (d *doubts) forget(n *note) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if by, _ := d.kept.Get(n.key); by == n {
		d.kept.Take(n.key)
	}
}
