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
func (k *keeper) record(ctx context.Context, _ *channel.Envelope, m flow.Record) ([]channel.Message, error) {
	top := flow.TopID(m.ID)
	if len(m.Lines) > 0 {
		if err := writeTrail(ctx, k.store.Table(k.plan+trailSuffix), top, m); err != nil {
			return nil, err
		}
	}
	if m.Forget || m.Delete {
		return nil, k.forget(ctx, m)
	}
	if m.ID != top {
		return nil, nil
	}
	_, err := k.refresh(ctx, m.ID, false)
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
		puts = append(puts, storage.RowPut{Key: trailKey(m.ID, ev.ID, ev.Run), Data: data})
	}
	return rows.PutRows(ctx, top, puts)
}

func trailKey(id, path string, run int) string { return fmt.Sprintf("%s#%03d#%s", id, run, path) }

// maxFetched bounds the steps that are brought back at once, in bytes.
const maxFetched = 32 << 10

// fetch brings steps back from the trail.
func (k *keeper) fetch(ctx context.Context, _ *channel.Envelope, m flow.Fetch) ([]channel.Message, error) {
	rows := k.store.Table(k.plan + trailSuffix)
	back := flow.Fetched{Plan: m.Plan, ID: m.ID, Word: m.Word}
	size := 0
	for _, x := range m.Want {
		row, err := rows.Get(ctx, flow.TopID(m.ID), trailKey(m.ID, x.ID, x.Run))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		ev := new(flow.Event)
		if err == nil {
			err = json.Unmarshal(row.Data, ev)
		}
		if err == nil && ev.Order != x.Order {
			err = errors.New("it is of an earlier end")
		}
		if size += len(row.Data); len(back.Steps) > 0 && (err != nil || size > maxFetched) {
			break // those that it has are undone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("process: trail of %s: step %s: %w", m.ID, flow.PathRun(x.ID, x.Run), err)
		}
		back.Steps = append(back.Steps, ev)
	}
	return []channel.Message{back}, nil
}

// forget deletes what belongs to an instance whose retention is over, and in the end its document.
func (k *keeper) forget(ctx context.Context, m flow.Record) error {
	documents := k.store.Blobs(k.plan)
	s, err := k.instances.Get(ctx, m.ID, "")
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
	trail := k.store.Table(k.plan + trailSuffix)
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
	return deleteRows(ctx, k.store.Table(k.plan+indexSuffix), m.ID, s.Value)
}
