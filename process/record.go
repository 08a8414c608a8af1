package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// Tables of a plan, by what is appended to its name.
const (
	indexSuffix = "-index" // a row for each instance
	trailSuffix = "-trail" // steps that have left the document
	plansSuffix = "-plans" // the structure of each version
)

// Partitions of these tables.
const (
	openRows    = "open"     // of the index: instances that have not ended
	versionRows = "versions" // of the plans
	sweepRows   = "sweep"    // of the plans
)

func versionKey(number int) string { return fmt.Sprintf("%06d", number) }

// record brings the index and the trail of an instance up to date. It reads the document, so the order of records
// doesn't matter.
func (h *host) record(ctx context.Context, _ *channel.Envelope, m flow.Record) ([]channel.Message, error) {
	top := flow.TopID(m.ID)
	store := h.registry.Channels().Store()
	if len(m.Lines) > 0 {
		if err := writeTrail(ctx, store.Table(h.name+trailSuffix), top, m); err != nil {
			return nil, err
		}
	}
	if m.Forget || m.Delete {
		return nil, h.forget(ctx, m)
	}
	if m.ID != top {
		return nil, nil
	}
	_, err := h.refresh(ctx, m.ID, false)
	return nil, err
}

// writeTrail writes steps that have left a document. The same again writes the same.
func writeTrail(ctx context.Context, rows *storage.Table, top string, m flow.Record) error {
	puts := make([]storage.RowPut, 0, len(m.Lines))
	for _, ev := range m.Lines {
		data, err := json.Marshal(ev)
		if err != nil {
			return fmt.Errorf("process: trail of %s: %w", m.ID, err)
		}
		puts = append(puts, storage.RowPut{Key: fmt.Sprintf("%s#%03d#%s", m.ID, ev.Run, ev.ID), Data: data})
	}
	return rows.PutRows(ctx, top, puts)
}

// forget deletes what belongs to an instance whose retention is over, and in the end its document.
func (h *host) forget(ctx context.Context, m flow.Record) error {
	store := h.registry.Channels().Store()
	documents := store.Blobs(h.name)
	s, err := h.instances.Get(ctx, m.ID, "")
	if err != nil {
		return err
	}
	if s.ETag != "" && !s.Value.Purged && s.Value.Status != "" {
		return nil // it was run again meanwhile
	}
	if m.Delete {
		err := documents.Delete(ctx, m.ID, storage.Condition{IfMatch: s.ETag})
		if storage.LostRace(err) || errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	}
	for b, err := range documents.List(ctx, m.ID+"/") {
		if err != nil {
			return err
		}
		if err := documents.Delete(ctx, b.Key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	trail := store.Table(h.name + trailSuffix)
	var keys []string
	for row, err := range trail.Query(ctx, m.ID, storage.RowRange{}) {
		if err != nil {
			return err
		}
		keys = append(keys, row.Key)
	}
	for some := range slices.Chunk(keys, 100) {
		if err := trail.DeleteRows(ctx, m.ID, some); err != nil {
			return err
		}
	}
	rows := store.Table(h.name + indexSuffix)
	if err := deleteRow(ctx, rows, openRows, m.ID); err != nil {
		return err
	}
	return deleteRow(ctx, rows, endedRows(s.Value.Ended), m.ID)
}
