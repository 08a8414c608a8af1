package process

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// structure is what is stored of a version when it is first registered.
type structure struct {
	Print string      `json:"print"`
	Since time.Time   `json:"since"`
	Steps []flow.Step `json:"steps"`

	Signals map[channel.Kind]json.RawMessage `json:"signals,omitempty"` // JSON Schemas of what steps wait for
}

// packAbove is how long the JSON of a structure may be without being packed. A row has at most 48 KiB.
const packAbove = 16 << 10

// row returns the structure as a row: JSON, packed by gzip where it is long.
func (s structure) row() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil || len(data) <= packAbove {
		return data, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err = w.Write(data); err == nil {
		err = w.Close()
	}
	return packed.Bytes(), err
}

// readStructure reads a row.
func readStructure(data []byte) (s structure, err error) {
	if len(data) > 0 && data[0] != '{' {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return s, err
		}
		if data, err = io.ReadAll(io.LimitReader(r, mostUnpacked)); err != nil {
			return s, err
		}
	}
	return s, json.Unmarshal(data, &s)
}

const mostUnpacked = 16 << 20 // bytes

// begin does what comes before a worker's first message.
func (h *host) begin(ctx context.Context) error {
	if err := h.keepVersions(ctx); err != nil {
		return err
	}
	return h.registry.Channels.Send(ctx, flow.Sweep{Plan: h.name, At: time.Now().UTC().Truncate(sweepEvery)})
}

// lookAgain asks for a sweep at once, because a clock was set: alarms may be overdue by the clock that is right.
func (h *host) lookAgain(ctx context.Context) error {
	return h.registry.Channels.Send(ctx, flow.Sweep{Plan: h.name, At: time.Now().UTC()})
}

// keepVersions stores the structure of each version that is new, and refuses one that is another than it was.
func (h *host) keepVersions(ctx context.Context) error {
	rows := h.registry.Channels.Store().Table(h.name + plansSuffix)
	for number, p := range h.versions {
		data, err := structure{Print: p.Print, Since: time.Now().UTC(), Steps: p.Structure(), Signals: h.hear.schemas(p)}.row()
		if err != nil {
			return fmt.Errorf("process: plan %s: %w", h.name, err)
		}
		key := versionKey(number)
		_, err = rows.Put(ctx, versionRows, key, data, storage.Condition{IfAbsent: true})
		if !errors.Is(err, storage.ErrExists) {
			if err != nil {
				return fmt.Errorf("process: plan %s: %w", h.name, err)
			}
			continue
		}
		row, err := rows.Get(ctx, versionRows, key)
		if err != nil {
			return fmt.Errorf("process: plan %s: %w", h.name, err)
		}
		old, err := readStructure(row.Data)
		if err != nil {
			return fmt.Errorf("process: plan %s: version %d as it was stored: %w", h.name, number, err)
		}
		if old.Print != p.Print {
			return fmt.Errorf("process: plan %s: version %d is another one since %s: %s: give the new plan the number %d, and keep this one registered until its instances have ended",
				h.name, number, old.Since.Format(time.DateOnly), cmp.Or(p.Differs(old.Steps), "its fingerprint has another form"), h.newest+1)
		}
	}
	return nil
}
