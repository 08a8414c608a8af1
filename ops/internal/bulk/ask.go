package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/storage"
)

// ErrOver is the error of a change of an act that has ended.
var ErrOver = errors.New("this bulk act has ended")

// selection is what the filter means to the list of poison messages.
func (f Filter) selection() poisoned.Selection {
	return poisoned.Selection{Queue: f.Queue, Kind: f.Kind, Reason: f.Reason, Print: f.Print, Before: f.Before}
}

// Ask makes the document of an act: of its verb, for its filter, under the ID of the call. Messages that are in the
// poison queues at this moment may be chosen, and none that come later. Nothing else is done yet: see [Driver]. If the
// act was asked for before under its ID, Ask returns the act as it is.
func Ask(ctx context.Context, c *act.Call, verb string, f Filter) (Act, error) {
	a := Act{ID: c.ID, Verb: verb, Filter: f, By: c.By, Why: c.Why, Asked: time.Now().UTC().Round(0), State: Running}
	var seen sighting
	if err := read(ctx, c.Store, a.ID, &seen); err == nil || !errors.Is(err, storage.ErrNotFound) {
		return seen.Doc.Act, err
	}
	names, err := f.queues(ctx, c)
	if err != nil {
		return Act{}, err
	}
	a.Queues = names
	all, err := shownSet(ctx, c.Store, a.ID, f)
	if errors.Is(err, storage.ErrNotFound) {
		all, err = standing(ctx, c.Store, a.Queues)
	}
	if err != nil {
		return Act{}, err
	}
	a.Chosen = len(all) / 8
	// The set is first, so whoever finds the document finds the set. Another call under this ID may have written either.
	switch _, err := c.Store.Blobs(container).Put(ctx, chosen+a.ID, all, storage.Condition{IfAbsent: true}); {
	case errors.Is(err, storage.ErrTooLarge):
		return Act{}, fmt.Errorf("%d messages are too many for one act: name a queue: %w", a.Chosen, err)
	case err != nil && !storage.LostRace(err):
		return Act{}, err
	case err != nil:
		before, err := readSet(ctx, c.Store, a.ID)
		if err != nil {
			return Act{}, err
		}
		a.Chosen = len(before)
	}
	err = documentOf(c.Store, a.ID).Write(ctx, &seen, document{Act: a})
	if storage.LostRace(err) {
		err = read(ctx, c.Store, a.ID, &seen)
	}
	return seen.Doc.Act, err
}

// queues are the queues with poison messages that the filter may mean.
func (f Filter) queues(ctx context.Context, c *act.Call) ([]string, error) {
	in := f.selection()
	names, counts, err := in.Queues(ctx, c.Desk)
	return slices.DeleteFunc(slices.Clone(names), func(q string) bool { return counts[q] == 0 }), err
}

// Show notes what stands in the poison queues now, for a person who is shown what an act would do. [Ask] under the ID
// of the call and with this filter then chooses from that alone: nothing that comes after it was shown.
func Show(ctx context.Context, c *act.Call, f Filter) error {
	names, err := f.queues(ctx, c)
	if err != nil {
		return err
	}
	all, err := standing(ctx, c.Store, names)
	if err != nil {
		return err
	}
	for info, err := range c.Store.Blobs(container).List(ctx, shown) { // of acts that nobody asked for in the end
		if err != nil {
			return err
		}
		if time.Since(info.Modified) > orphanedFor {
			_ = c.Store.Blobs(container).Delete(ctx, info.Key, storage.Condition{IfMatch: info.ETag}) // otherwise the next one does
		}
	}
	_, err = c.Store.Blobs(container).Put(ctx, f.shownAs(c.ID), all, storage.Condition{})
	if errors.Is(err, storage.ErrTooLarge) {
		err = fmt.Errorf("%d messages are too many for one act: name a queue: %w", len(all)/8, err)
	}
	return err
}

// Get returns an act. The error matches [storage.ErrNotFound] if there is none.
func Get(ctx context.Context, s *storage.Store, id string) (Act, error) {
	var seen sighting
	err := read(ctx, s, id, &seen)
	return seen.Doc.Act, err
}

// List yields the acts, the newest first. An act that can't be read is an error with the ID of that act, and the
// listing goes on after it.
func List(ctx context.Context, s *storage.Store) iter.Seq2[Act, error] { return below(ctx, s, acts) }

// Unended is List of the acts that have not ended. It asks for no other act.
func Unended(ctx context.Context, s *storage.Store) iter.Seq2[Act, error] {
	return func(yield func(Act, error) bool) {
		for a, err := range below(ctx, s, chosen) {
			if errors.Is(err, storage.ErrNotFound) || err == nil && a.Over() {
				continue // nobody has asked for it yet, or its driver died just before it deleted the set
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// below yields the acts whose IDs stand under a prefix.
func below(ctx context.Context, s *storage.Store, prefix string) iter.Seq2[Act, error] {
	return func(yield func(Act, error) bool) {
		ids, err := idsBelow(ctx, s, prefix)
		if err != nil {
			yield(Act{}, err)
			return
		}
		for _, id := range slices.Backward(ids) {
			a, err := Get(ctx, s, id)
			if errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrNotFound) {
				a = Act{ID: id}
			}
			if !yield(a, err) || err != nil && a.ID == "" {
				return
			}
		}
	}
}

// idsBelow are the IDs under a prefix, the oldest first.
func idsBelow(ctx context.Context, s *storage.Store, prefix string) (ids []string, err error) {
	for info, err := range s.Blobs(container).List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, strings.TrimPrefix(info.Key, prefix))
	}
	return ids, nil
}

// Set has an act run, pause or be cancelled from now on: by whom, and why. An act that shall do so already stays as it
// is. The error matches [ErrOver] if the act has ended, or was cancelled and shall run again.
func Set(ctx context.Context, s *storage.Store, id string, state State, by, why string) (Act, error) {
	for {
		var seen sighting
		if err := read(ctx, s, id, &seen); err != nil {
			return Act{}, err
		}
		d := seen.Doc
		switch {
		case d.State == state:
			return d.Act, nil
		case d.Over(), d.State == Cancelled, d.State == Done:
			return d.Act, ErrOver
		}
		d.State, d.Set, d.SetBy, d.SetWhy = state, time.Now().UTC().Round(0), by, why
		err := documentOf(s, id).Write(ctx, &seen, d)
		if err == nil || !storage.LostRace(err) {
			return d.Act, err
		}
		if err := storecall.Sleep(ctx, storecall.Spread(20*time.Millisecond)); err != nil { // its driver writes often
			return Act{}, err
		}
	}
}
