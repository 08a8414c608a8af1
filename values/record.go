package values

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// entry is the fixed-size record of an applied message in its document.
type entry struct {
	id      messageDigest // digest of the ID
	content [6]byte       // digest of kind and body: tells whether it is the same message
	time    int64         // from when the message counts, in milliseconds, 47 bits
	keyed   bool          // time is not the ID's: another copy may come with another time
	known   bool          // the value itself knows its repeats, see Config.Idempotent; not stored
}

// entrySize is what an entry takes in the document. 96 bits of ID make an accidental collision in a document
// of a million messages less likely than 1 in 10^16.
const entrySize = 12 + 6 + 6

const lastTime = 1<<47 - 1

// entryOf makes the entry of a message. now replaces the time of a message from elsewhere that has none.
func entryOf(e *channel.Envelope, now time.Time) entry {
	var x entry
	id := sha256.Sum256([]byte(e.ID))
	copy(x.id[:], id[:])
	content := e.Content()
	copy(x.content[:], content[:])
	if t, timed := channel.IDTime(e.ID); timed && e.Since.IsZero() {
		x.time = t.UnixMilli() & lastTime
		return x
	}
	born := e.Born()
	if born.IsZero() {
		born = now
	}
	x.time, x.keyed = max(0, min(born.UnixMilli(), lastTime)), true
	return x
}

// entryIn makes the entry of a message that a subscriber group takes; see [Change]. No ID and no group has the
// character between them.
func entryIn(group string, e *channel.Envelope, now time.Time) entry {
	x := entryOf(e, now)
	if group != "" {
		id := sha256.Sum256([]byte(e.ID + "\x00" + group))
		copy(x.id[:], id[:])
	}
	return x
}

// rowKey is the key of the row that the entry becomes. Rows are sorted by time, so that they can be deleted in order.
// Those of keyed entries are apart and sorted by ID, because another copy can't tell their time.
func (x entry) rowKey() string {
	if x.keyed {
		return keyedRows + hex.EncodeToString(x.id[:]) + "-" + timeKey(x.time)
	}
	return timeKey(x.time) + "-" + hex.EncodeToString(x.id[:])
}

// endKey is the key of a second row of a keyed entry. It lies among the rows that are sorted by time, so far behind
// those of its own time as the entry's row is kept longer. When it is to be deleted, so is the entry's row. Its key
// holds that of the entry's row, which no message with the same ID that is applied later shares.
func (x entry) endKey(retention time.Duration) string {
	return timeKey(x.time+retention.Milliseconds()) + "-" + x.rowKey()
}

// endOf returns the key of the row that ends with the row of a key, if that is an endKey.
func endOf(key string) (row string, ok bool) {
	_, row, _ = strings.Cut(key, "-")
	return row, strings.HasPrefix(row, keyedRows)
}

// keyedRow is where the row of a keyed entry lies, whatever its time is.
func (x entry) keyedRow() storage.RowRange {
	from := keyedRows + hex.EncodeToString(x.id[:])
	return storage.RowRange{From: from, To: from + "."} // '.' comes after '-'
}

const keyedRows = "key-"

func (x entry) before(t time.Time) bool { return x.time < t.UnixMilli() }

func timeKey(ms int64) string { return fmt.Sprintf("%012x", ms) }

// mayHaveLeft reports whether a message that isn't in the window may be in a row.
func (r *record) mayHaveLeft(x entry) bool { return r.left && (x.keyed || x.time <= r.watermark) }

// pack appends the entry's stored form: entrySize bytes, the top bit of the time marking a keyed entry.
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
	x.time, x.keyed = int64(t&lastTime), t&(1<<47) != 0
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
