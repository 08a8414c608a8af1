package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// A Ledger is the stored side of settings, for operators: it doesn't know the program's type. Its methods may be called
// concurrently.
type Ledger struct{ book book }

// At returns the ledger of a name. It makes no request. An error is about the store or the name.
func At(store *storage.Store, name string) (*Ledger, error) {
	b, err := newBook(store, name)
	if err != nil {
		return nil, err
	}
	return &Ledger{b}, nil
}

// Names yields the names of settings that somebody has set, in byte order. An error is yielded last.
func Names(ctx context.Context, store *storage.Store) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if store == nil {
			yield("", fmt.Errorf("settings: list: %w: there is no store", storage.ErrInvalid))
			return
		}
		for info, err := range store.Blobs(container).List(ctx, "") {
			if err != nil {
				yield("", fmt.Errorf("settings: list: %w", err))
				return
			}
			if name, ok := strings.CutSuffix(info.Key, "/current"); ok && !yield(name, nil) {
				return
			}
		}
	}
}

// Current is what is in force, and what is being checked.
type Current struct {
	Epoch     int64           `json:"epoch"`     // 0: nobody has ever set anything
	Version   int64           `json:"version"`   // in force; 0: the programs' defaults
	Values    json.RawMessage `json:"values"`    // what is set: a JSON merge patch on the programs' defaults
	Candidate int64           `json:"candidate"` // the version that is being checked or rolled out; 0: none
	Rollout   *Rollout        `json:"rollout"`   // of the candidate; nil: it is being checked, or there is none
	Ended     []Ending        `json:"ended"`     // of the last versions, newest first
}

// Current returns what is in force.
func (l *Ledger) Current(ctx context.Context) (Current, error) {
	var seen sighting
	if err := l.book.readKnown(ctx, &seen); err != nil {
		return Current{}, l.book.fail("read", err)
	}
	d := seen.doc
	c := Current{Epoch: d.Epoch, Version: d.Stable, Values: d.Values, Rollout: d.rollout(), Ended: d.Ended}
	if c.Values == nil {
		c.Values = json.RawMessage("{}")
	}
	if d.Candidate != nil {
		c.Candidate = d.Candidate.Version
	}
	return c, nil
}

// Version returns a version. One that isn't there is storage.ErrNotFound.
func (l *Ledger) Version(ctx context.Context, number int64) (Version, error) {
	v, err := l.book.readVersion(ctx, number)
	if err != nil {
		return Version{}, l.book.fail(fmt.Sprintf("read version %d of", number), err)
	}
	return v, nil
}

// History yields the versions, newest first. One that can't be read is yielded with its number and an error. Each
// version is one request.
func (l *Ledger) History(ctx context.Context) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		last, err := l.book.lastVersion(ctx)
		if err != nil {
			yield(Version{}, l.book.fail("list", err))
			return
		}
		for n := last; n > 0; n-- {
			v, err := l.Version(ctx, n)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				continue
			case err != nil:
				v.Number = n
			}
			if !yield(v, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Difference lists what is set otherwise in one version than in another.
func (l *Ledger) Difference(ctx context.Context, from, to int64) ([]Change, error) {
	a, err := l.Version(ctx, from)
	if err != nil {
		return nil, err
	}
	b, err := l.Version(ctx, to)
	if err != nil {
		return nil, err
	}
	before, errA := parseTree(a.Values)
	after, errB := parseTree(b.Values)
	return changes(before, after), errors.Join(errA, errB)
}

// Nodes returns the nodes that have a row, by name. A node that has died keeps its row for three of its polls, and
// longer while no other node runs.
func (l *Ledger) Nodes(ctx context.Context) ([]Node, error) {
	w := newWatch(l.book)
	all, err := w.look(ctx)
	if err != nil {
		return nil, l.book.fail("list the nodes of", err)
	}
	return all.live(), nil
}

// Await returns the end of a proposed version, which may be that of its roll-out. One that didn't come into force is an
// error.
func (l *Ledger) Await(ctx context.Context, version int64) (Ending, error) {
	w := waiter{book: l.book, seen: &sighting{}, watch: newWatch(l.book)}
	e, err := w.await(ctx, awaited{version: version, until: InForce})
	if err != nil {
		return e, l.book.fail("await a change of", err)
	}
	return e, nil
}
