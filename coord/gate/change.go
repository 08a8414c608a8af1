package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// ErrOpen is in the error of [Gate.OpenAt] when the gate is open already.
var ErrOpen = errors.New("open already")

// Open opens the gate for all that wait, and for all that come later, until it is closed. A gate that is open stays as
// it is, with its note. When Open returns nil, those that listen have been told.
//
// After an error the gate may be open or not. To call Open again is harmless, unless somebody has closed it since.
func (g *Gate) Open(ctx context.Context, note Note) error {
	return g.change(ctx, "open", note, nil, func(d document) (document, error) { return document{Open: true}, nil })
}

// OpenAt announces that the gate opens at t, and replaces an earlier announcement. A gate that is open already is
// [ErrOpen], because it would not be closed until then. If t has passed, OpenAt is [Gate.Open].
//
// The first process that looks at the gate and whose clock says t opens it for all. This is the only place where clocks
// of different machines matter: a clock that is ahead by a second opens the gate a second early. All that wait look at
// that moment, so where the clocks agree all go within milliseconds. If nobody looks at that moment, the gate opens
// when somebody does. While the store can't be reached, the gate stays closed, because somebody may have closed it.
func (g *Gate) OpenAt(ctx context.Context, t time.Time, note Note) error {
	t = t.Round(0).UTC()
	return g.change(ctx, "open", note, func() error { return checkTime(t, g.now()) }, func(d document) (document, error) {
		switch {
		case !t.After(g.now()):
			return document{Open: true}, nil
		case d.Open:
			return d, fmt.Errorf("%w, since %s: close it first if it shall open at another time", ErrOpen, d.Since.Format(time.RFC3339))
		}
		return document{OpensAt: t}, nil
	})
}

// Close closes the gate, and takes back the announcement of [Gate.OpenAt]. It doesn't recall those that have gone. A
// gate that is closed stays as it is, with its note. After an error the gate may be closed or not.
func (g *Gate) Close(ctx context.Context, note Note) error {
	return g.change(ctx, "close", note, nil, func(document) (document, error) { return document{}, nil })
}

// change writes what next makes of the document, and lets all that listen look.
func (g *Gate) change(ctx context.Context, op string, note Note, check func() error, next func(d document) (document, error)) error {
	if g.fault != nil {
		return g.fault
	}
	note, err := note.withDefaults()
	if check != nil {
		err = errors.Join(err, check())
	}
	if err != nil {
		return g.fail(op, err)
	}
	c := agree.Change[document]{ID: rand.Text(), Look: g.look, Write: g.write, Stamp: stamp, Doubt: errDoubt}
	c.Next = func(seen sighting) (document, bool, error) {
		d, err := next(seen.Doc)
		if err != nil || seen.ETag != "" && d.Open == seen.Doc.Open && d.OpensAt.Equal(seen.Doc.OpensAt) {
			return d, false, err
		}
		d.By, d.Why, d.ID = note.By, note.Why, c.ID
		return d, true, nil
	}
	// An announced opening whose moment has come is kept by the look before the change, so that those that wait for the
	// opening go even if the gate is closed now.
	if err := c.Make(ctx); err != nil {
		return g.fail(op, err)
	}
	g.ring(ctx)
	return nil
}

func stamp(d document) (id string, epoch int64) { return d.ID, d.Epoch }

// errDoubt is the error of a change that may have been done and replaced by another one.
var errDoubt = fmt.Errorf("%w: an answer was lost, and the gate has been changed since: whether this change came before that is unknown. Look at the gate",
	storage.ErrUnavailable)
