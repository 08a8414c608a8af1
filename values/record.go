package values

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// entry is the fixed-size record of an applied message in its document.
type entry struct {
	id      messageDigest // digest of the ID
	content [6]byte       // digest of kind and body: tells whether it is the same message
	time    int64         // milliseconds that the ID carries, 48 bits; for a key, when it was applied
	keyed   bool          // the ID is a key: time says nothing about its other copies
}

// entrySize is what an entry takes in the document. 96 bits of ID make an accidental collision in a document
// of a million messages less likely than 1 in 10^16.
const entrySize = 12 + 6 + 6

// entryOf makes the entry of a message. now replaces the time that a key doesn't carry.
func entryOf(e *channel.Envelope, now time.Time) entry {
	var x entry
	id := sha256.Sum256([]byte(e.ID))
	copy(x.id[:], id[:])
	content := e.Content()
	copy(x.content[:], content[:])
	t, ok := channel.IDTime(e.ID)
	if !ok {
		t = now
	}
	x.time, x.keyed = t.UnixMilli()&(1<<47-1), !ok
	return x
}

// rowKey is the key of the row that the entry becomes. Rows are sorted by time, so that they can be deleted in order.
// Keys are apart, because a late copy of one can't tell its time.
func (x entry) rowKey() string {
	if x.keyed {
		return "key-" + hex.EncodeToString(x.id[:])
	}
	return timeKey(x.time) + "-" + hex.EncodeToString(x.id[:])
}

func timeKey(ms int64) string { return fmt.Sprintf("%012x", ms) }

// mayHaveLeft reports whether a message that isn't in the window may be in a row.
func (r *record) mayHaveLeft(x entry) bool { return r.left && (x.keyed || x.time <= r.watermark) }

// pack appends the entry's stored form: entrySize bytes, the top bit of the time marking a key.
func (x entry) pack(b []byte) []byte {
	t := uint64(x.time)
	if x.keyed {
		t |= 1 << 47
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], t)
	return append(append(append(b, x.id[:]...), x.content[:]...), ms[2:]...)
}

func unpack(b []byte) entry {
	var x entry
	copy(x.id[:], b)
	copy(x.content[:], b[12:])
	var ms [8]byte
	copy(ms[2:], b[18:entrySize])
	t := binary.BigEndian.Uint64(ms[:])
	x.time, x.keyed = int64(t&(1<<47-1)), t&(1<<47) != 0
	return x
}

// record holds the messages that a document has applied: the newest as entries, the others as rows of a table.
type record struct {
	packed    []byte // entries, in the order they were applied
	watermark int64  // newest ID time that has left, milliseconds; 0: none
	left      bool   // some entry has left
}

func (r *record) len() int { return len(r.packed) / entrySize }

func (r *record) check() error {
	if len(r.packed)%entrySize != 0 {
		return fmt.Errorf("a replay record of %d bytes; want a multiple of %d", len(r.packed), entrySize)
	}
	return nil
}

func (r *record) add(x entry) { r.packed = x.pack(r.packed) }

func (r *record) find(x entry) (entry, bool) {
	for b := r.packed; len(b) > 0; b = b[entrySize:] {
		if messageDigest(b) == x.id {
			return unpack(b), true
		}
	}
	return entry{}, false
}

// leaving returns the entries that must leave, oldest first, so that keep entries remain. It takes only from the first
// committed ones, which a stored document holds.
func (r *record) leaving(committed, keep int) []entry {
	n := min(r.len()-keep, committed)
	if n <= 0 {
		return nil
	}
	old := make([]entry, committed)
	for i := range old {
		old[i] = unpack(r.packed[i*entrySize:])
	}
	slices.SortStableFunc(old, func(a, b entry) int { return cmp.Compare(a.time, b.time) })
	return old[:n]
}

// forget removes entries that have become rows.
func (r *record) forget(gone []entry) {
	ids := make(map[messageDigest]bool, len(gone))
	for _, x := range gone {
		ids[x.id] = true
		if !x.keyed {
			r.watermark = max(r.watermark, x.time)
		}
	}
	r.left = r.left || len(gone) > 0
	kept := make([]byte, 0, len(r.packed))
	for b := r.packed; len(b) > 0; b = b[entrySize:] {
		if !ids[messageDigest(b)] {
			kept = append(kept, b[:entrySize]...)
		}
	}
	r.packed = kept
}

// same reports that the same message left the row, which holds the content digest.
func (x entry) same(row []byte) bool { return bytes.Equal(x.content[:], row) }
