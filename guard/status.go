package guard

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/guard/internal/fleet"
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
	v := g.breaker.view()
	s := Status{Name: g.name, Open: v.State.Away(), Damaged: g.fleet.Damaged()}
	if s.Open {
		s.All, s.Asks, s.Since, s.Why = g.fleet.ForAll(), time.Now().Before(v.RetryAfterAny), v.Opened, v.Why
	}
	return s
}

// List returns the breakers of which a store has a document, by name: those that have ever been open.
func List(ctx context.Context, s *storage.Store) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for standing, err := range fleet.List(ctx, s) {
			if !yield(Status(standing), err) {
				return
			}
		}
	}
}

// Outages returns the breakers that are open by the documents of a store, by name. A breaker is open for all
// processes that have the guard, or only for the processes that have reported that. A breaker whose document can't be
// read counts as open, and is Damaged; the next process that looks replaces the document. If no process runs that has
// the guard, its document stays as it was, until [Close].
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
	standing, err := fleet.Reset(ctx, s, name)
	return Status(standing), err
}
