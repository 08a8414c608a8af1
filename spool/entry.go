package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
)

// An entry is one Send in the file. The key of an entry is SEQUENCE.LANE.MESSAGES, so that a listing has the oldest
// entry first and the messages need not be read.
type entry struct {
	seq      uint64
	lane     string // a digest of the queues
	messages int64
	size     int64
	at       time.Time // when it was kept
	blamed   int       // how often it failed as the first of others; Run alone uses it
	counted  bool      // its room is taken; index.mu guards this and waits
	waits    bool
}

func (e *entry) key() string { return fmt.Sprintf("%020d.%s.%d", e.seq, e.lane, e.messages) }

// parseKey reads the key of an entry. A key of another form is not this package's.
func parseKey(key string) (e entry, ok bool) {
	n, err := fmt.Sscanf(strings.ReplaceAll(key, ".", " "), "%d %s %d", &e.seq, &e.lane, &e.messages)
	return e, err == nil && n == 3 && e.messages > 0 && e.key() == key
}

// laneOf returns the lane of messages that go to some queues.
func laneOf(queues []string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(queues, "/")))
	return fmt.Sprintf("%08x", h.Sum32())
}

// magic begins the blob of an entry. Behind it stand a checksum and, with their lengths, the envelopes.
const magic = "MRSP1"

var errDamaged = errors.New("the entry is damaged")

// encode returns the blob of envelopes.
func encode(envelopes []wire.Envelope) ([]byte, error) {
	b := append([]byte(magic), 0, 0, 0, 0)
	for i := range envelopes {
		one, err := envelopes[i].Encode()
		if err != nil {
			return nil, fmt.Errorf("channel: %s: %w", envelopes[i].Kind, err)
		}
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	binary.BigEndian.PutUint32(b[len(magic):], checksum(b[len(magic)+4:]))
	return b, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// decode returns the envelopes of an entry from its blob. The error matches errDamaged.
func (e *entry) decode(b []byte) ([]wire.Envelope, error) {
	if len(b) < len(magic)+4 || string(b[:len(magic)]) != magic || binary.BigEndian.Uint32(b[len(magic):]) != checksum(b[len(magic)+4:]) {
		return nil, errDamaged
	}
	var envelopes []wire.Envelope
	for b = b[len(magic)+4:]; len(b) > 0; {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errDamaged
		}
		one, err := wire.Decode(b[n : n+int(size)])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		envelopes, b = append(envelopes, one), b[n+int(size):]
	}
	if int64(len(envelopes)) != e.messages {
		return nil, fmt.Errorf("%w: it has %d messages, and its key says %d", errDamaged, len(envelopes), e.messages)
	}
	return envelopes, nil
}
