package millracetest

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/millrace-go/millrace/internal/post"
)

// document is what the laws need of a stored document of package values.
type document struct {
	Version uint64          `json:"version"`
	Value   json.RawMessage `json:"value"`
	Applied []byte          `json:"applied"` // entries of applied messages, in the order in which they were applied
}

// applied tells an applied message: the beginning of a document's entry of it, which are digests of its ID and of its
// content.
type applied [18]byte

// entrySize is the size of an entry; see package values.
const entrySize = 24

// appliedOf returns how a document tells a message.
func appliedOf(e *post.Envelope) (x applied) {
	id, content := sha256.Sum256([]byte(e.ID)), e.Content()
	copy(x[:12], id[:])
	copy(x[12:], content[:])
	return x
}

// A history is which messages a document has applied, in their order.
type history struct {
	docPlace
	last    document
	entries []applied // of last
	order   []applied
	unclear bool // something else than a message has changed the document: a rebuild, a deletion
}

// add notes what a write has applied. It is false for a blob that is no document.
func (h *history) add(body []byte) bool {
	var d document
	if json.Unmarshal(body, &d) != nil || d.Version == 0 || d.Value == nil || len(d.Applied)%entrySize != 0 {
		return false
	}
	var now []applied
	for b := d.Applied; len(b) > 0; b = b[entrySize:] {
		now = append(now, applied(b[:len(applied{})]))
	}
	before, versions := h.entries, d.Version-h.last.Version
	h.last, h.entries = d, now
	if versions == 0 || slices.Equal(before, now) {
		h.unclear = true
		return true
	}
	for n := min(int(versions), len(now)); n > 0; n-- { // entries may have left, and new ones stand behind the others
		if within(now[:len(now)-n], before) {
			h.order = append(h.order, now[len(now)-n:]...)
			h.unclear = h.unclear || n < int(versions)
			return true
		}
	}
	h.unclear = true
	return true
}

// within reports that part can be had from all by leaving out elements.
func within(part, all []applied) bool {
	for len(part) > 0 {
		i := slices.Index(all, part[0])
		if i < 0 {
			return false
		}
		part, all = part[1:], all[i+1:]
	}
	return true
}
