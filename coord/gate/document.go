package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "gates"
	maxBytes  = 8 << 10          // of a document
	callTime  = 10 * time.Second // for one call of the store
)

// A document is the blob's content, as JSON. The zero document is a gate that nobody has changed.
type document struct {
	Open     bool      `json:"open"`
	OpensAt  time.Time `json:"opensAt,omitzero"` // a closed gate opens then
	By       string    `json:"by"`
	Why      string    `json:"why,omitempty"`
	Since    time.Time `json:"since"`              // by the clock of the last change's maker
	Epoch    int64     `json:"epoch"`              // changes so far
	Openings int64     `json:"openings,omitempty"` // those changes that opened it
	ID       string    `json:"id"`                 // of the last change that was asked for, at random
}

func (d document) state() State {
	return State{Open: d.Open, OpensAt: d.OpensAt, Note: Note{By: d.By, Why: d.Why}, Since: d.Since, Epoch: d.Epoch, Openings: d.Openings}
}

// due reports that the moment has come, by a clock that says now.
func (d document) due(now time.Time) bool {
	return !d.Open && !d.OpensAt.IsZero() && !now.Before(d.OpensAt)
}

// A sighting is a state of the document. The zero sighting is one that is not there.
type sighting struct {
	doc  document
	etag storage.ETag // empty: there is no blob
}

// read brings a sighting up to date.
func (g *Gate) read(ctx context.Context, seen *sighting) error {
	ctx, cancel := call.Limit(ctx, callTime)
	defer cancel()
	blob, err := g.blobs.Get(ctx, g.name, seen.etag)
	switch {
	case errors.Is(err, storage.ErrNotModified):
		return nil
	case errors.Is(err, storage.ErrNotFound):
		*seen = sighting{}
		return nil
	case err != nil:
		return err
	}
	var d document
	if len(blob.Body) > maxBytes || json.Unmarshal(blob.Body, &d) != nil || d.Epoch < 1 || d.Epoch == math.MaxInt64 || d.Openings < 0 || d.Openings > d.Epoch || d.Open && !d.OpensAt.IsZero() {
		return fmt.Errorf("%w: the blob %s in container %s is not a gate; close it by \"millrace gates repair\"", storage.ErrInvalid, storage.Quote(g.name), container)
	}
	*seen = sighting{d, blob.ETag}
	return nil
}

// write replaces what was seen, if it is still there. d says something else about the gate.
func (g *Gate) write(ctx context.Context, seen *sighting, d document) error {
	ctx, cancel := call.Limit(ctx, callTime)
	defer cancel()
	d.Epoch, d.Openings = seen.doc.Epoch+1, seen.doc.Openings
	if d.Open {
		d.Openings++
	}
	d.Since = g.now().Round(0).UTC()
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	etag, err := g.blobs.Put(ctx, g.name, body, storage.Condition{IfMatch: seen.etag, IfAbsent: seen.etag == ""})
	if err != nil {
		return err
	}
	if *seen = (sighting{d, etag}); d.Open {
		g.metrics.opened.Inc()
	}
	return nil
}

// look brings a sighting up to date, and opens the gate if its moment has come. The write is guarded: it does nothing
// to a gate that somebody has closed or opened meanwhile.
func (g *Gate) look(ctx context.Context, seen *sighting) error {
	for {
		if !seen.doc.due(g.now()) {
			if err := g.read(ctx, seen); err != nil || !seen.doc.due(g.now()) {
				return err
			}
		}
		d := seen.doc
		d.Open, d.OpensAt = true, time.Time{}
		err := g.write(ctx, seen, d)
		if err == nil {
			g.tell(ctx)
			return nil
		}
		*seen = sighting{} // read it again: somebody has changed it, or will where this process can't write
		if !storage.LostRace(err) {
			return err
		}
	}
}
