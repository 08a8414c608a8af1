package engine

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	random "math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage/driver"
)

// Nothing that is compared comes from a counter of the server: after a failover, or a power failure, the counter would
// give a number again, for another state. So this process draws all IDs and ETags.

// ids makes names of 16 bytes that no other process makes.
type ids struct {
	process [8]byte
	count   atomic.Uint64
}

func newIDs() *ids {
	x := new(ids)
	rand.Read(x.process[:])
	return x
}

// NewID returns 16 bytes.
func (e *Engine) NewID() string {
	var b [16]byte
	copy(b[:], e.ids.process[:])
	binary.BigEndian.PutUint64(b[8:], e.ids.count.Add(1))
	return string(b[:])
}

// NewNonce returns 8 bytes, which aren't those of a message that nobody has claimed.
func NewNonce() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], random.Uint64()|1<<63)
	return string(b[:])
}

// newProcess returns the name of a process, 8 letters.
func newProcess() string { return strings.ToLower(rand.Text()[:8]) }

// A Receipt names a message and its newest claim.
type Receipt struct{ ID, Nonce string }

// Text returns a receipt as the port has it.
func (r Receipt) Text() driver.Receipt {
	return driver.Receipt(base64.RawURLEncoding.EncodeToString([]byte(r.ID + r.Nonce)))
}

// ParseReceipt reads a receipt. A text that [Receipt.Text] doesn't make is not ok.
func ParseReceipt(text driver.Receipt) (r Receipt, ok bool) {
	if len(text) != 32 {
		return Receipt{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != 24 {
		return Receipt{}, false
	}
	r = Receipt{string(b[:16]), string(b[16:])}
	return r, r.Text() == text
}

// FormatETag returns an ETag as the port has it.
func FormatETag(id string) driver.ETag { return driver.ETag(hex.EncodeToString([]byte(id))) }

// ParseETag reads an ETag. A text that [FormatETag] doesn't make is not ok and matches nothing.
func ParseETag(text driver.ETag) (id string, ok bool) {
	if len(text) != 32 || strings.ToLower(string(text)) != string(text) {
		return "", false
	}
	b, err := hex.DecodeString(string(text))
	return string(b), err == nil
}
