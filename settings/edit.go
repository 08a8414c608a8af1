package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	tries      = 3                      // of a write, lost races not counted
	retryPause = 600 * time.Millisecond // between two tries, and down to half of that
)

// An edit is one write of the document by somebody. It has its effect once at most, although it is repeated.
type edit struct {
	book    book
	note    Note
	seen    sighting
	number  int64   // of its version; 0: it has none yet
	tried   []int64 // all that it has had: a write whose answer was lost may come late
	dropped int64   // the candidate that it drops; 0: none
}

// repeat calls try until it succeeds: at once after a lost race, and twice more after a failure of the store.
func repeat(ctx context.Context, try func(ctx context.Context) error) error {
	for n := 1; ; {
		err := try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // it says what was waited for
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case storage.LostRace(err): // somebody else wrote first
			continue
		case n == tries, !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled):
			return err
		}
		if err := storecall.Sleep(ctx, storecall.Spread(retryPause)); err != nil {
			return err
		}
		n++
	}
}

// made reports that the document has the edit: it was written, and the answer was lost.
func (e *edit) made(ctx context.Context) bool {
	if !e.hasDropped() && !e.written() {
		return false
	}
	e.book.tell(ctx)
	return true
}

// hasDropped reports that the document has the ending of the candidate that the edit dropped.
func (e *edit) hasDropped() bool {
	end, ended := e.seen.doc.of(e.dropped)
	return e.dropped > 0 && ended && !end.came()
}

// written reports that the document has one of the edit's versions, which then is the edit's.
func (e *edit) written() bool {
	d := e.seen.doc
	for _, n := range e.tried {
		if _, ended := d.of(n); ended || d.Candidate != nil && d.Candidate.Version == n {
			e.number = n
			return true
		}
	}
	return false
}

// record writes the version that makes t of what is in force. Its number is that of the edit from now on.
func (e *edit) record(ctx context.Context, t tree, backTo *int64) (Version, error) {
	d := e.seen.doc
	values, err := encodeTree(t)
	if err != nil {
		return Version{}, err
	}
	if bytes.Equal(values, d.Values) {
		return Version{}, fmt.Errorf("%w, as version %d", ErrUnchanged, d.Stable)
	}
	from, err := parseTree(d.Values)
	if err != nil {
		return Version{}, err
	}
	v, err := e.book.addVersion(ctx, Version{
		Number: max(d.Last, e.number) + 1, Base: d.Stable, BackTo: backTo, By: e.note.By, Why: e.note.Why, At: time.Now().Round(0).UTC(), Epoch: d.Epoch,
		Values: values, Changes: changes(from, t),
	})
	if err == nil {
		e.number, e.dropped, e.tried = v.Number, 0, append(e.tried, v.Number)
	}
	return v, err
}

// drop drops the candidate, and does nothing else: what shall be in force is so already.
func (e *edit) drop(ctx context.Context) error {
	d := e.seen.doc
	e.number, e.dropped = d.Candidate.Version, d.Candidate.Version
	return e.write(ctx, d.drop(Refusal{e.note.By, e.note.Why}, time.Now()))
}

// write writes the document, and tells of it.
func (e *edit) write(ctx context.Context, d document) error {
	err := e.book.write(ctx, &e.seen, d)
	if err == nil {
		e.book.tell(ctx)
	}
	return err
}
