package agree

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	tries = 3                      // of a change, lost races not counted
	pause = 600 * time.Millisecond // between two tries, and down to half of that
)

// A Change is an operator's change of a document. The document has the ID of the change that wrote it last, and an
// epoch, which each write counts up.
type Change[D any] struct {
	ID string // of this change, at random

	// Look brings a sighting up to date, as [Document.Read] does.
	Look func(ctx context.Context, seen *Sighting[D]) error

	// Next decides what to write in place of a document, with the ID of this change. It reports false if the document is
	// as it shall be. Its error ends the change.
	Next func(seen Sighting[D]) (doc D, changed bool, err error)

	// Write replaces what was seen by a document with the next epoch, as [Document.Write] does.
	Write func(ctx context.Context, seen *Sighting[D], doc D) error

	// Stamp returns the ID of a document's last change, and its epoch.
	Stamp func(doc D) (id string, epoch int64)

	// Doubt is the error if a write may have had its effect, and somebody has changed the document since: a repeat might
	// undo that.
	Doubt error

	doubted int64 // the epoch of a write whose outcome is unknown; 0: none
}

// Make makes the change. It tries again after a lost race, and three times after a failure of the store.
func (c Change[D]) Make(ctx context.Context) error {
	for n := 1; ; n++ {
		over, err := c.try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case storage.LostRace(err):
			n-- // somebody else wrote first
			continue
		case over, storecall.Permanent(err), n == tries:
			return err
		}
		if err := storecall.Sleep(ctx, storecall.Spread(pause)); err != nil {
			return err
		}
	}
}

// try looks, and writes unless the document is as it shall be. After an error, over reports that a repeat is of no use.
func (c *Change[D]) try(ctx context.Context) (over bool, err error) {
	var seen Sighting[D]
	if err := c.Look(ctx, &seen); err != nil {
		return false, err
	}
	id, epoch := c.Stamp(seen.Doc)
	if id == c.ID { // it was written, and the answer was lost
		return true, nil
	}
	doc, changed, err := c.Next(seen)
	if err != nil || !changed {
		return true, err
	}
	switch {
	case c.doubted == 0:
	case epoch > c.doubted:
		return true, c.Doubt
	case epoch == c.doubted:
		c.doubted = 0 // somebody else wrote in place of it
	}
	err = c.Write(ctx, &seen, doc)
	if err != nil && !storage.LostRace(err) {
		c.doubted = epoch + 1
	}
	return false, err
}
