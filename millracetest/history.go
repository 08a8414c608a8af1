package millracetest

import (
	"cmp"
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
	writes  []document // in the order in which they were seen, which need not be that of their versions
	last    document   // of the newest version; read it after read
	order   []applied  // likewise
	unclear bool       // something else than a message has changed the document: a rebuild, a deletion
}

// add notes a write. It is false for a blob that is no document.
func (h *history) add(body []byte) bool {
	var d document
	if json.Unmarshal(body, &d) != nil || d.Version == 0 || d.Value == nil || len(d.Applied)%entrySize != 0 {
		return false
	}
	h.writes = append(h.writes, d)
	return true
}

// read finds what the writes have applied.
func (h *history) read() {
	slices.SortStableFunc(h.writes, func(a, b document) int { return cmp.Compare(a.Version, b.Version) })
	h.last, h.order = document{}, nil
	var before []applied
	for _, d := range h.writes {
		var now []applied
		for b := d.Applied; len(b) > 0; b = b[entrySize:] {
			now = append(now, applied(b[:len(applied{})]))
		}
		h.step(before, now, int(d.Version-h.last.Version))
		h.last, before = d, now
	}
}

// step finds what one write has applied, given the entries before it and after it, and how many versions it makes.
func (h *history) step(before, now []applied, versions int) {
	if versions == 0 || slices.Equal(before, now) {
		h.unclear = true
		return
	}
	for n := min(versions, len(now)); n > 0; n-- { // entries may have left, and new ones stand behind the others
		if within(now[:len(now)-n], before) {
			h.order = append(h.order, now[len(now)-n:]...)
			h.unclear = h.unclear || n < versions
			return
		}
	}
	h.unclear = true
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
