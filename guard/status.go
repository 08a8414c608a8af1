package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Status is what a breaker is doing, for people.
type Status struct {
	Name    string    // of the guard
	Open    bool      // no call is let through, or a probe at most
	All     bool      // for all processes
	Asks    bool      // the service asks to wait, so it isn't away
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
		s.All, s.Asks, s.Since, s.Why = g.fleet.forAll.Load(), time.Now().Before(b.asked), b.since, b.last
	}
	return s
}

// List returns the breakers of which a store has a document, by name: those that have ever been open.
func List(ctx context.Context, s *storage.Store) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for info, err := range s.Blobs(guards).List(ctx, "") {
			if err != nil {
				yield(Status{}, fmt.Errorf("guard: list: %w", err))
				return
			}
			blob, err := s.Blobs(guards).Get(ctx, info.Key, "")
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				yield(Status{}, fmt.Errorf("guard: list: %w", err))
				return
			}
			status := damaged(info.Key)
			if r, err := decodeRecord(blob.Body); err == nil {
				status = r.status(info.Key)
			}
			if !yield(status, nil) {
				return
			}
		}
	}
}

// Outages returns the breakers that are open by the documents of a store, by name: for all of their processes, or for
// those that have reported it. A breaker whose document can't be read counts as open, and is Damaged; the next process
// that looks replaces the document. If no process runs that has the guard, its document stays as it was, until [Close].
func Outages(ctx context.Context, s *storage.Store) (all []Status, err error) {
	for status, err := range List(ctx, s) {
		if err != nil {
			return nil, err
		}
		if status.Open {
			all = append(all, status)
		}
	}
	return all, nil
}

// Close closes a breaker by hand, in all processes: calls go on in a ramp, and open it again if the service is away. It
// returns what the breaker was before. A process that can't reach the service by itself, and one that the service asks
// to wait, goes on to keep its own breaker open. Close is for the document of a guard that no program has any more, and
// for people who know sooner than the next probe that the service is back. A breaker that is closed stays as it is. The
// error matches storage.ErrNotFound if the store has no document of that name.
func Close(ctx context.Context, s *storage.Store, name string) (before Status, err error) {
	quiet := slog.New(slog.DiscardHandler)
	l := ledger{name: name, log: func() *slog.Logger { return quiet }}
	l.store.Store(s)
	for range mostRaces {
		if err = l.look(ctx); err == nil && l.etag == "" {
			err = storage.ErrNotFound
		}
		if err != nil {
			break
		}
		if before = l.doc.status(name); l.bad.Load() {
			before = damaged(name)
		}
		if !before.Open {
			return before, nil
		}
		if err = l.write(ctx, record{}); err == nil {
			l.ring(ctx)
			return before, nil
		}
		if !storage.LostRace(err) {
			break
		}
	}
	return before, fmt.Errorf("guard: close %s: %w", name, err)
}

func (r record) status(name string) Status {
	s := Status{Name: name, Open: r.Open || len(r.Ill) > 0}
	if s.Open {
		s.All, s.Asks, s.Since, s.Why = r.Open, r.Open && r.Pause > 0, r.Since, r.Why
	}
	return s
}

func damaged(name string) Status {
	return Status{Name: name, Open: true, All: true, Damaged: true, Why: errRecord.Error()}
}
