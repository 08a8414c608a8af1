// Package change makes one change of a document that others may change, too. Its writes are guarded. They are repeated
// when an answer is lost, and still the change has its effect once at most. For that a document has the ID of the
// change that wrote it last, and an epoch, which each write counts up.
package change

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

const (
	tries    = 3                      // of a change, lost races not counted
	pause    = 300 * time.Millisecond // between two tries, and up to twice that
	tellTime = 5 * time.Second
)

// A Document is changed by calls in this order, again and again: Look, Next, Write.
type Document interface {
	// Look reads the document, and returns the ID of its last change, and its epoch; zero values if it isn't there.
	Look(ctx context.Context) (id string, epoch int64, err error)

	// Next decides what to write in place of what Look has read, with the ID of this change. It reports false if
	// the document is as it shall be. Its error ends the change.
	Next() (changed bool, err error)

	// Write writes that if the document is still as Look has read it, with the next epoch.
	Write(ctx context.Context) error
}

// Once changes a document. The error is doubt if a write may have had its effect, and somebody has changed the document
// since: a repeat might undo that.
func Once(ctx context.Context, id string, d Document, doubt error) error {
	c := &change{Document: d, id: id, doubt: doubt}
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
		case over, call.Permanent(err), n == tries:
			return err
		}
		if err := call.Sleep(ctx, pause+rand.N(pause)); err != nil {
			return err
		}
	}
}

type change struct {
	Document
	id      string
	doubt   error
	doubted int64 // the epoch of a write whose outcome is unknown; 0: none
}

// try looks, and writes unless the document is as it shall be. After an error, over reports that a repeat is of no use.
func (c *change) try(ctx context.Context) (over bool, err error) {
	id, epoch, err := c.Look(ctx)
	if err != nil || id == c.id { // it was written, and the answer was lost
		return false, err
	}
	changed, err := c.Next()
	if err != nil || !changed {
		return true, err
	}
	switch {
	case c.doubted == 0:
	case epoch > c.doubted:
		return true, c.doubt
	case epoch == c.doubted:
		c.doubted = 0 // somebody else wrote in place of it
	}
	err = c.Write(ctx)
	if err != nil && !storage.LostRace(err) {
		c.doubted = epoch + 1
	}
	return false, err
}

// Tell lets all that listen on a topic look at what has changed, even if ctx has ended. Where the store doesn't ring,
// they see it with their next look.
func Tell(ctx context.Context, store *storage.Store, topic string, data []byte) error {
	if !store.Rings() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	_, err := store.Tell(ctx, topic, data, false)
	if errors.Is(err, storage.ErrUnsupported) {
		return nil
	}
	return err
}
