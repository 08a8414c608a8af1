package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// An Entry is the row of an instance in the index. The index follows the documents, some seconds behind; see law 18 of
// the package.
type Entry struct {
	ID      string            `json:"id"`
	Version int               `json:"version"`
	Status  Status            `json:"status"`
	Waits   []string          `json:"waits,omitempty"` // names of steps that are open
	Due     time.Time         `json:"due,omitzero"`    // its alarm
	Created time.Time         `json:"created"`
	Ended   time.Time         `json:"ended,omitzero"`
	Error   string            `json:"error,omitempty"`  // why it failed, or is stuck
	Step    string            `json:"step,omitempty"`   // that is stuck, or whose undo is; see [Line.ID]
	Name    string            `json:"name,omitempty"`   // of that step
	Since   time.Time         `json:"since,omitzero"`   // it is stuck, about
	Unknown bool              `json:"unknown,omitzero"` // it is stuck because nobody knows what an attempt of the step has done
	Tags    map[string]string `json:"tags,omitempty"`
	Seq     uint64            `json:"seq"`
}

// keeper keeps what others read of a plan's instances: the index, and the trail of steps that have left documents.
type keeper struct {
	plan      string
	store     *storage.Store
	atomic    bool // the store writes a document and a row at once
	instances *values.Collection[flow.Instance]
	versions  map[int]*flow.Plan // they say how an instance is tagged
	meters    *meters
}

func newKeeper(d *definition, store *storage.Store, instances *values.Collection[flow.Instance], m *meters) *keeper {
	return &keeper{d.name, store, store.Atomic(), instances, d.versions, m}
}

// refresh brings the row of an instance up to date, and returns the document. It may leave a row that is up to date.
func (k *keeper) refresh(ctx context.Context, id string, leave bool) (d flow.Instance, err error) {
	for etag := storage.ETag(""); ; {
		s, err := k.instances.Get(ctx, id, etag)
		if errors.Is(err, storage.ErrNotModified) {
			return d, nil
		}
		same := false
		if d = s.Value; err == nil && leave {
			same, err = k.indexed(ctx, id, d)
		}
		if err == nil && !same {
			err = k.index(ctx, id, d)
		}
		if err != nil || same || s.ETag == "" {
			return d, err
		}
		etag = s.ETag // somebody else may have written a newer row just before: look again
	}
}

// index writes the row of an instance.
func (k *keeper) index(ctx context.Context, id string, d flow.Instance) error {
	rows := k.store.Table(k.plan + indexSuffix)
	if isUnlisted(d) {
		return deleteRows(ctx, rows, id, d)
	}
	x := k.entry(id, d)
	if d.Status == Stuck {
		if err := k.showStuck(ctx, &x, d); err != nil {
			return err
		}
	}
	data, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("process: index of %s: %w", id, err)
	}
	if !d.Was.IsZero() && endedRows(d.Was) != endedRows(d.Ended) { // it was run again
		if err := deleteRow(ctx, rows, endedRows(d.Was), id); err != nil {
			return err
		}
	}
	if !d.Status.Final() {
		if !d.Ended.IsZero() { // it is stuck since its end
			if err := deleteRow(ctx, rows, endedRows(d.Ended), id); err != nil {
				return err
			}
		}
		_, err := rows.Put(ctx, openRows, id, data, storage.Condition{})
		return err
	}
	switch _, err := rows.Put(ctx, endedRows(d.Ended), id, data, storage.Condition{IfAbsent: true}); {
	case err == nil:
		k.meters.end(d)
	case !errors.Is(err, storage.ErrExists):
		return err
	default: // by another record
		if _, err := rows.Put(ctx, endedRows(d.Ended), id, data, storage.Condition{}); err != nil {
			return err
		}
	}
	return deleteRow(ctx, rows, openRows, id)
}

// entry returns the row of an instance, but for what is stuck in it.
func (k *keeper) entry(id string, d flow.Instance) Entry {
	x := Entry{ID: id, Version: d.Version, Status: d.Status, Due: d.Alarm, Created: d.Created, Ended: d.Ended, Error: d.Msg, Seq: d.Seq}
	for _, ev := range d.Waits() {
		if len(x.Waits) < 20 {
			x.Waits = append(x.Waits, ev.Name)
		}
	}
	if p := k.versions[d.Version]; p != nil && p.Tags != nil && d.Parent == nil {
		x.Tags = tagsOf(p, d)
	}
	return x
}

// beside puts the row of an instance that goes on into the unit of work that writes its document, in place of the
// record message, where the store can do both at once. An end, and what is stuck, need reads and deletions.
func (k *keeper) beside(id string, before flow.Status, d flow.Instance, out []channel.Message) ([]channel.Message, error) {
	goesOn := func(s flow.Status) bool { return s == InProcess || s == Undoing }
	if !k.atomic || d.Parent != nil || !goesOn(d.Status) || !goesOn(before) && before != "" && before != flow.Init || !d.Was.IsZero() {
		return out, nil
	}
	for i, m := range out {
		r, ok := m.(flow.Record)
		if !ok || r.Forget || r.Delete {
			continue
		}
		data, err := json.Marshal(k.entry(id, d))
		if err != nil {
			return nil, fmt.Errorf("process: index of %s: %w", id, err)
		}
		row := wire.Row{Table: k.plan + indexSuffix, Partition: openRows, Key: id, Data: data}
		if len(r.Lines) > 0 {
			return append(out, row), nil
		}
		out[i] = row
		return out, nil
	}
	return out, nil
}

// isUnlisted reports that an instance has no row: it has not begun, or only its tombstone is left.
func isUnlisted(d flow.Instance) bool { return d.Status == "" || d.Status == flow.Init || d.Purged }

// indexed reports that the index has an instance as it is.
func (k *keeper) indexed(ctx context.Context, id string, d flow.Instance) (bool, error) {
	rows := k.store.Table(k.plan + indexSuffix)
	row, err := rows.Get(ctx, openRows, id)
	absent := errors.Is(err, storage.ErrNotFound)
	if err != nil && !absent {
		return false, err
	}
	if d.Status.Final() {
		if !absent {
			return false, nil
		}
		row, err = rows.Get(ctx, endedRows(d.Ended), id)
		if absent = errors.Is(err, storage.ErrNotFound); err != nil && !absent {
			return false, err
		}
	}
	if isUnlisted(d) {
		return absent, nil
	}
	var x Entry
	return json.Unmarshal(row.Data, &x) == nil && x.Seq == d.Seq && x.Due.Equal(d.Alarm), nil
}

// endedRows is the partition of the instances that ended on a day.
func endedRows(t time.Time) string { return "ended-" + t.UTC().Format(time.DateOnly) }

// deleteRows deletes the row of an instance, wherever it is.
func deleteRows(ctx context.Context, rows *storage.Table, id string, d flow.Instance) error {
	if err := deleteRow(ctx, rows, openRows, id); err != nil || d.Ended.IsZero() {
		return err
	}
	return deleteRow(ctx, rows, endedRows(d.Ended), id)
}

func deleteRow(ctx context.Context, rows *storage.Table, partition, key string) error {
	if err := rows.Delete(ctx, partition, key, storage.Condition{}); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// tagsOf calls the plan's function for tags.
func tagsOf(p *flow.Plan, d flow.Instance) (tags map[string]string) {
	err := contain.Apart(func() error {
		state, err := p.Decode(d.State)
		if err == nil {
			tags = p.Tags(state)
		}
		return err
	})
	if err != nil {
		return map[string]string{"error": fmt.Sprintf("Tags: %v", err)}
	}
	n := 0
	for name, v := range tags {
		n += len(name) + len(v)
	}
	if n > maxTags {
		return map[string]string{"error": fmt.Sprintf("Tags: %d bytes; want at most %d", n, maxTags)}
	}
	return tags
}

// maxTags is how many bytes of tags a row of the index holds.
const maxTags = 4 << 10
