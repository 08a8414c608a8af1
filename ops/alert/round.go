package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/storage"
)

const (
	looks     = 2                // in a row, for a beginning or an end
	lanesEach = 10               // looks
	mostCalls = 8                // of the hook, in a round
	mostHung  = 8                // calls that were given up and still run
	callLimit = 20 * time.Second // of the hook
	callGrace = time.Second      // for a hook to return after the end of its context
)

// rounds are the rounds of a process. One goroutine uses them.
type rounds struct {
	cfg   Config
	every time.Duration // from a round to the next
	desk  *act.Desk

	hung atomic.Int64      // calls that run
	told map[string]bool   // IDs that the document may not know as told
	said map[string]string // what was logged last, by subject

	// of a term
	docs   *lease.Documents
	loaded bool // book is what the store has under tag
	book   book
	tag    storage.ETag
	turns  map[string]turn // by the findings' keys
	tries  map[string]int  // calls that have failed, by ID
	looked int
}

// A turn is a change of a finding that the next look may confirm.
type turn struct {
	of  doctor.Finding
	saw int // looks that have seen it
}

// begin begins a term.
func (r *rounds) begin(docs *lease.Documents) {
	r.docs, r.loaded, r.looked = docs, false, 0
	r.turns, r.tries = map[string]turn{}, map[string]int{}
}

// round looks, notes what has changed, and tells it. Its error ends the term.
func (r *rounds) round(ctx context.Context) error {
	err := r.try(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, lease.ErrFenced), errors.Is(err, errForm):
		return err
	}
	r.say("round", "what is wrong with the store can't be looked at or told for now", err)
	return nil
}

func (r *rounds) try(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.desk.Look(ctx); err != nil {
		return err
	}
	without := []string{"listeners"} // that would ring them
	if r.looked%lanesEach != 0 {
		without = append(without, "lanes")
	}
	x := doctor.Look(ctx, r.desk, doctor.Lag, without...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.looked++
	r.say("part", "a part of the store can't be looked at, and what was told of it stays as it is", x.Err())
	began, ended := r.changes(x)
	if len(began)+len(ended) > 0 {
		if left := r.book.note(began, ended, time.Now().UTC().Round(0)); left > 0 {
			r.say("full", "more is wrong with the store than is told", fmt.Errorf("%d findings found no place beside %d", left, mostKept))
		}
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return r.tell(ctx)
}

// load reads the document once in a term, and again after a write of unknown outcome.
func (r *rounds) load(ctx context.Context) (err error) {
	if r.loaded {
		return nil
	}
	if r.book, r.tag, err = read(ctx, r.docs, r.cfg.Name); err != nil {
		return err
	}
	r.loaded = true
	news := false
	for id := range r.told {
		news = r.book.mark(id) || news
	}
	if !news {
		clear(r.told)
		return nil
	}
	return r.save(ctx)
}

// save writes the document. After an error the book isn't known any more.
func (r *rounds) save(ctx context.Context) (err error) {
	if r.tag, err = r.book.write(ctx, r.docs, r.cfg.Name, r.tag); err != nil {
		r.loaded = false
		return err
	}
	clear(r.told)
	return nil
}

// changes returns the findings that have begun, and the indexes of the entries that have ended.
func (r *rounds) changes(x *doctor.Examination) (began []doctor.Finding, ended []int) {
	found, open := map[string]bool{}, map[string]bool{}
	confirmed := func(f doctor.Finding) bool {
		t := turn{f, r.turns[f.Key()].saw + 1}
		r.turns[f.Key()] = t
		if t.saw < looks {
			return false
		}
		delete(r.turns, f.Key())
		return true
	}
	for _, f := range x.Findings {
		found[f.Key()] = found[f.Key()] || f.Severity == doctor.Wrong
	}
	for i, e := range r.book.Entries {
		key := e.Finding.Key()
		switch {
		case !e.open():
			continue
		case found[key]:
			delete(r.turns, key) // it was gone for one look
		case x.Saw(e.Finding) && confirmed(e.Finding):
			ended = append(ended, i)
		}
		open[key] = true
	}
	for _, f := range x.Findings { // the wrong ones first
		if key := f.Key(); found[key] && !open[key] {
			open[key] = true
			if confirmed(f) {
				began = append(began, f)
			}
		}
	}
	for key, t := range r.turns {
		if !open[key] && x.Saw(t.of) {
			delete(r.turns, key) // it was there for one look
		}
	}
	return began, ended
}

// tell calls the hook for alerts that were not told. The alert that has failed most often comes last.
func (r *rounds) tell(ctx context.Context) error {
	all := r.book.alerts()
	slices.SortStableFunc(all, func(a, b Alert) int { return cmp.Compare(r.tries[a.ID], r.tries[b.ID]) })
	for _, a := range all[:min(len(all), mostCalls)] {
		err := r.call(ctx, a)
		if err != nil {
			r.tries[a.ID]++
			attrs := []slog.Attr{slog.String("finding", a.Title()), slog.Any("error", err)}
			if p, ok := errors.AsType[*contain.Panic](err); ok {
				attrs = append(attrs, slog.String("stack", contain.Stack(p.Frames)))
			}
			r.cfg.Logger.LogAttrs(ctx, slog.LevelError, "an alert could not be told, and is tried again", attrs...)
		}
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			continue
		}
		delete(r.tries, a.ID)
		r.told[a.ID] = true
		r.book.mark(a.ID)
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call calls the hook, for so long.
func (r *rounds) call(ctx context.Context, a Alert) error {
	if n := r.hung.Load(); n >= mostHung {
		return fmt.Errorf("%d earlier calls of Program.Alert still run after the end of their contexts", n)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r.hung.Add(1)
	over := make(chan error, 1)
	go func() {
		err := contain.Apart(func() error { return r.cfg.Hook(ctx, a) })
		r.hung.Add(-1)
		over <- err
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(callGrace)
	defer grace.Stop()
	select {
	case err := <-over:
		return err
	case <-grace.C:
		return fmt.Errorf("the call hangs, and is given up: %w", context.Cause(ctx))
	}
}

// say logs a trouble once, until it is another one or over.
func (r *rounds) say(subject, text string, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != r.said[subject] {
		r.cfg.Logger.Warn(text, slog.Any("error", err))
	}
	r.said[subject] = now
}
