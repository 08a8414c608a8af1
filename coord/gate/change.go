package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/coord/internal/call"
	"github.com/millrace-go/millrace/storage"
)

// ErrOpen is in the error of [Gate.OpenAt] when the gate is open already.
var ErrOpen = errors.New("open already")

const (
	tries    = 3 // of a change
	pause    = 300 * time.Millisecond
	tellTime = 5 * time.Second
)

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

// change writes what next makes of the document, and tells all that listen.
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
	c := &changing{Gate: g, note: note, id: rand.Text(), next: next}
	for n := 1; ; n++ {
		err := c.try(ctx)
		switch {
		case err == nil:
			g.tell(ctx)
			return nil
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case storage.LostRace(err):
			n-- // somebody else wrote first
			continue
		case call.Permanent(err), errors.Is(err, ErrOpen), errors.Is(err, errDoubt), n == tries:
		default:
			if err = call.Sleep(ctx, pause+mathrand.N(pause)); err == nil {
				continue
			}
		}
		return g.fail(op, err)
	}
}

// errDoubt is the error of a change that may have been done and replaced by another one.
var errDoubt = fmt.Errorf("%w: an answer was lost, and the gate has been changed since: whether this change came before that is unknown. Look at the gate",
	storage.ErrUnavailable)

// changing is one change of a gate. It has its effect once at most, although its writes are repeated.
type changing struct {
	*Gate
	note    Note
	id      string
	next    func(d document) (document, error)
	doubted int64 // the epoch of a write whose outcome is unknown; 0: none
}

// try reads the document and writes it, unless it is as it shall be. An announced opening whose moment has come is kept
// before that, so that those that wait for it go even if the gate is closed now.
func (c *changing) try(ctx context.Context) error {
	var seen sighting
	if err := c.look(ctx, &seen); err != nil {
		return err
	}
	if seen.doc.ID == c.id {
		return nil // it was written, and the answer was lost
	}
	d, err := c.next(seen.doc)
	if err != nil {
		return err
	}
	if seen.etag != "" && d.Open == seen.doc.Open && d.OpensAt.Equal(seen.doc.OpensAt) {
		return nil
	}
	switch {
	case c.doubted == 0:
	case seen.doc.Epoch > c.doubted:
		return errDoubt // a repeat might undo a later change
	case seen.doc.Epoch == c.doubted:
		c.doubted = 0 // somebody else wrote in place of it
	}
	d.By, d.Why, d.ID = c.note.By, c.note.Why, c.id
	err = c.write(ctx, &seen, d)
	if err != nil && !storage.LostRace(err) {
		c.doubted = seen.doc.Epoch + 1
	}
	return err
}

// tell lets all that listen look at the gate. A change that was written is told even if ctx has ended.
func (g *Gate) tell(ctx context.Context) {
	if !g.store.Rings() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	if _, err := g.store.Tell(ctx, topic, []byte(g.name), false); err != nil && !errors.Is(err, storage.ErrUnsupported) {
		g.log(ctx, slog.LevelWarn, "can't tell others of a change of a gate; they see it with their next look", slog.Any("error", err))
	}
}
