package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Standing is what the document of a breaker says, for people.
type Standing struct {
	Name    string
	Open    bool // for all processes, or for those that have reported it
	All     bool // for all processes
	Asks    bool // the service asks to wait
	Since   time.Time
	Why     string
	Damaged bool // the document can't be read, so the breaker counts as open
}

// List returns the breakers of which a store has a document, by name.
func List(ctx context.Context, s *storage.Store) iter.Seq2[Standing, error] {
	return func(yield func(Standing, error) bool) {
		for info, err := range s.Blobs(guards).List(ctx, "") {
			if err != nil {
				yield(Standing{}, fmt.Errorf("guard: list: %w", err))
				return
			}
			blob, err := s.Blobs(guards).Get(ctx, info.Key, "")
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				yield(Standing{}, fmt.Errorf("guard: list: %w", err))
				return
			}
			standing := damaged(info.Key)
			if r, err := decodeRecord(blob.Body); err == nil {
				standing = r.standing(info.Key)
			}
			if !yield(standing, nil) {
				return
			}
		}
	}
}

// Reset writes that a breaker is closed, if it is open, and returns what it was before.
func Reset(ctx context.Context, s *storage.Store, name string) (before Standing, err error) {
	quiet := slog.New(slog.DiscardHandler)
	l := ledger{name: name, log: func() *slog.Logger { return quiet }}
	l.store.Store(s)
	for range mostRaces {
		if err = l.look(ctx); err == nil && l.seen.ETag == "" {
			err = storage.ErrNotFound
		}
		if err != nil {
			break
		}
		if before = l.doc.standing(name); l.bad.Load() {
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

func (r record) standing(name string) Standing {
	s := Standing{Name: name, Open: r.Open || len(r.Ill) > 0}
	if s.Open {
		s.All, s.Asks, s.Since, s.Why = r.Open, r.Open && r.Pause > 0, r.Since, r.Why
	}
	return s
}

func damaged(name string) Standing {
	return Standing{Name: name, Open: true, All: true, Damaged: true, Why: errRecord.Error()}
}
