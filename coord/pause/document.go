package pause

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "pauses"
	key       = "queues"
	maxBytes  = 256 << 10        // of a document
	callTime  = 10 * time.Second // for one call of the store
	mostEpoch = 1 << 53          // after which the numbers begin again
)

// ErrUnreadable is in the error of a change or listing that has found a blob that can't be read as pauses.
// [Pauses.Repair] replaces it.
var ErrUnreadable = fmt.Errorf("%w: blob %s in container %s can't be read as pauses of queues", storage.ErrInvalid, key, container)

// A document is the blob's content, as JSON. The zero document pauses nothing.
type document struct {
	Pauses map[string]entry `json:"pauses"` // by queue; never null in a blob
	Epoch  int64            `json:"epoch"`  // changes so far
	ID     string           `json:"id"`     // of the last change, at random
}

// An entry is a pause. Its length is the time between Since and Until.
type entry struct {
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`          // by the clock of the process that paused the queue
	Until time.Time `json:"until,omitzero"` // by the same clock
	ID    string    `json:"id"`             // of the change that made it
}

func (e entry) pause() Pause { return Pause{Note{By: e.By, Why: e.Why}, e.Since, e.Until} }

// valid reports that a watch can keep the pause.
func (e entry) valid() bool {
	return e.ID != "" && (e.Until.IsZero() || e.Until.After(e.Since) && e.Until.Sub(e.Since) <= mostLength)
}

// without returns a copy without the pauses for which over returns true, and whether there were any.
func (d document) without(over func(queue string, e entry) bool) (document, bool) {
	before := len(d.Pauses)
	d.Pauses = maps.Clone(d.Pauses)
	maps.DeleteFunc(d.Pauses, over)
	return d, len(d.Pauses) < before
}

// decode reads a document. It refuses whatever might be something else: nothing of it counts then.
func decode(body []byte) (document, error) {
	var d document
	if len(body) > maxBytes || json.Unmarshal(body, &d) != nil || d.Pauses == nil || d.Epoch < 1 || d.Epoch > mostEpoch {
		return document{}, ErrUnreadable
	}
	for queue, e := range d.Pauses {
		if storage.CheckName(queue) != nil || !e.valid() {
			return document{}, ErrUnreadable
		}
	}
	return d, nil
}

// encode writes a document that decode can read.
func encode(d document) ([]byte, error) {
	if d.Pauses == nil {
		d.Pauses = map[string]entry{}
	}
	body, err := json.Marshal(d)
	if err == nil && len(body) > maxBytes {
		err = fmt.Errorf("%w: the pauses of %d queues have %d bytes, more than %d; resume some", storage.ErrTooLarge, len(d.Pauses), len(body), maxBytes)
	}
	return body, err
}

// A sighting is a state of the document that this process has seen.
type sighting = agree.Sighting[document]

func documentOf(store *storage.Store) agree.Document[document] {
	return agree.Document[document]{Blobs: store.Blobs(container), Key: key, Limit: callTime, Decode: decode, Encode: encode}
}

// write replaces what was seen by d, if it is still there.
func (p *Pauses) write(ctx context.Context, seen *sighting, d document) error {
	d.Epoch = seen.Doc.Epoch%mostEpoch + 1
	return p.doc.Write(ctx, seen, d)
}
