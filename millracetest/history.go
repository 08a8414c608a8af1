package millracetest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
)

// document is what the laws need of a stored document of package values.
type document struct {
	Version uint64          `json:"version"`
	Value   json.RawMessage `json:"value"`
}

// applied tells a message that was folded into a document: digests of its ID and of its content.
type applied [18]byte

// appliedOf returns how a document tells a message.
func appliedOf(e *wire.Envelope) (x applied) {
	id, content := sha256.Sum256([]byte(e.ID)), e.Content()
	copy(x[:12], id[:])
	copy(x[12:], content[:])
	return x
}

// A write is a document as it was written, with what was folded in that write.
type write struct {
	document
	folded []wire.Folded // nil: something else than messages has changed it
}

// A history is which messages a document has applied, in their order.
type history struct {
	docPlace
	first   []byte                // how values.Collection.Insert has written it, before any message; nil if it didn't
	writes  []write               // in the order in which they were seen, which need not be that of their versions
	last    document              // of the newest version; read it after read
	order   []applied             // likewise
	at      map[applied]time.Time // likewise: when each was applied
	unclear bool                  // something else than a message has changed the document: a rebuild, a deletion
}

// add notes a write. It is false for a blob that is no document.
func (h *history) add(body []byte, folded []wire.Folded) bool {
	d := document{Version: math.MaxUint64}
	switch {
	case json.Unmarshal(body, &d) != nil || d.Version == math.MaxUint64 || d.Value == nil:
		return false
	case d.Version == 0:
		h.first = bytes.Clone(body)
	default:
		h.writes = append(h.writes, write{d, folded})
	}
	return true
}

// read finds what the writes have applied.
func (h *history) read() {
	slices.SortStableFunc(h.writes, func(a, b write) int { return cmp.Compare(a.Version, b.Version) })
	h.last, h.order, h.at = document{}, nil, map[applied]time.Time{}
	for _, w := range h.writes {
		h.unclear = h.unclear || w.Version-h.last.Version != uint64(len(w.folded)) || len(w.folded) == 0
		for _, m := range w.folded {
			var x applied
			copy(x[:12], m.ID[:])
			copy(x[12:], m.Content[:])
			h.order, h.at[x] = append(h.order, x), m.At
		}
		h.last = w.document
	}
}
