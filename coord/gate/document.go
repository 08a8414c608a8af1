package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

const (
	topic     = "gates" // is told the name of a gate that has changed
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

// A sighting is a state of a gate that this process has seen.
type sighting = agree.Sighting[document]

// decode reads a document.
func decode(name string, body []byte) (document, error) {
	var d document
	if len(body) > maxBytes || json.Unmarshal(body, &d) != nil || d.Epoch < 1 || d.Epoch == math.MaxInt64 || d.Openings < 0 || d.Openings > d.Epoch || d.Open && !d.OpensAt.IsZero() {
		return document{}, fmt.Errorf("%w: the blob %s in container %s is not a gate; close it by \"millrace gates repair\"", storage.ErrInvalid, storage.Quote(name), container)
	}
	return d, nil
}

// documentOf returns the document of a gate.
func documentOf(blobs *storage.Blobs, name string) agree.Document[document] {
	return agree.Document[document]{
		Blobs: blobs, Key: name, Limit: callTime,
		Decode: func(body []byte) (document, error) { return decode(name, body) },
		Encode: func(d document) ([]byte, error) { return json.Marshal(d) },
	}
}

// write replaces what was seen, if it is still there. d says something else about the gate.
func (g *Gate) write(ctx context.Context, seen *sighting, d document) error {
	d.Epoch, d.Openings = seen.Doc.Epoch+1, seen.Doc.Openings
	if d.Open {
		d.Openings++
	}
	d.Since = g.now().Round(0).UTC()
	err := g.doc.Write(ctx, seen, d)
	if err == nil && d.Open {
		g.metrics.opened.Inc()
	}
	return err
}

// look brings a sighting up to date, and opens the gate if its moment has come. The write is guarded: it does nothing
// to a gate that somebody has closed or opened meanwhile.
func (g *Gate) look(ctx context.Context, seen *sighting) error {
	for {
		if !seen.Doc.due(g.now()) {
			if err := g.doc.Read(ctx, seen); err != nil || !seen.Doc.due(g.now()) {
				return err
			}
		}
		d := seen.Doc
		d.Open, d.OpensAt = true, time.Time{}
		err := g.write(ctx, seen, d)
		if err == nil {
			g.ring(ctx)
			return nil
		}
		*seen = sighting{} // read it again: somebody has changed it, or will where this process can't write
		if !storage.LostRace(err) {
			return err
		}
	}
}

// ring lets all that listen look at the gate.
func (g *Gate) ring(ctx context.Context) {
	if err := agree.Ring(ctx, g.store, topic, []byte(g.name)); err != nil {
		g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't tell others of a change of a gate; they see it with their next look", slog.Any("error", err))
	}
}

func (g *Gate) fail(op string, err error) error { return fail(op, g.name, err) }

func fail(op, name string, err error) error {
	return fmt.Errorf("gate: %s %s: %w", op, storage.Quote(name), err)
}
