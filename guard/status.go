package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Status is what a breaker is doing, for people.
type Status struct {
	Name    string    // of the guard
	Open    bool      // no call is let through, or a probe at most
	All     bool      // for all processes
	Since   time.Time // when it opened; zero: it is closed, or that isn't known
	Why     string    // the error that came last, or that opened it; it may tell more than the public should see
	Damaged bool      // its document can't be read, and wasn't replaced yet
}

// Status returns what the breaker of this process is doing.
func (g *Guard) Status() Status {
	b := g.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Name: g.name, Open: b.state.shut() || b.state == due, Damaged: g.fleet.bad.Load()}
	if s.Open {
		s.All, s.Since, s.Why = g.fleet.forAll.Load(), b.since, b.last
	}
	return s
}

// Outages returns the breakers that are open by the documents of a store, by name: for all of their processes, or for
// those that have reported it. A breaker whose document can't be read counts as open, and is Damaged; the next process
// that looks replaces the document. If no process runs that has the guard, its document stays as it was.
func Outages(ctx context.Context, s *storage.Store) (all []Status, err error) {
	for info, err := range s.Blobs(guards).List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("guard: outages: %w", err)
		}
		blob, err := s.Blobs(guards).Get(ctx, info.Key, "")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("guard: outages: %w", err)
		}
		switch r, err := decodeRecord(blob.Body); {
		case err != nil:
			all = append(all, Status{Name: info.Key, Open: true, All: true, Damaged: true, Why: err.Error()})
		case r.Open || len(r.Ill) > 0:
			all = append(all, Status{Name: info.Key, Open: true, All: r.Open, Since: r.Since, Why: r.Why})
		}
	}
	return all, nil
}
