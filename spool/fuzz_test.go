package spool

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
)

// sealed returns a blob whose checksum is right.
func sealed(content []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte(magic), checksum(content))
	return append(b, content...)
}

// Whatever is behind a right checksum, an entry is read as it was kept, or it is damaged and stays in the file.
func FuzzEntry(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	two, err := encode([]wire.Envelope{
		{ID: "order-1", Source: "/web", Kind: "buy-ticket", Time: at, Data: []byte(`{"n":1}`)},
		{ID: "order-2", Source: "/web", Kind: "buy-ticket", Time: at, Due: at.Add(time.Hour), Tenant: "a", Data: []byte(`{}`)},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(two[len(magic)+4:], int64(2))
	f.Add(two[len(magic)+4:], int64(1))
	f.Add([]byte{}, int64(1))
	f.Add(binary.AppendUvarint(nil, 1<<63), int64(1))
	f.Add([]byte("\x02{}"), int64(1))
	f.Fuzz(func(t *testing.T, content []byte, messages int64) {
		e := entry{seq: 1, lane: laneOf([]string{"orders"}), messages: max(messages, 1)}
		if back, ok := parseKey(e.key()); !ok || back != e {
			t.Fatalf("the key %s says %+v", e.key(), back)
		}
		if _, err := e.decode(content); err != nil && !errors.Is(err, errDamaged) {
			t.Errorf("without a checksum: %v", err)
		}
		envelopes, err := e.decode(sealed(content))
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Errorf("%q: %v isn't told as damage", content, err)
			}
			return
		}
		if int64(len(envelopes)) != e.messages {
			t.Fatalf("%d messages, want %d", len(envelopes), e.messages)
		}
		kept, err := encode(envelopes)
		if err != nil {
			return // a message that no program of today sends
		}
		again, err := e.decode(kept)
		if err != nil {
			t.Fatalf("kept again: %v", err)
		}
		for i := range again {
			if again[i].ID != envelopes[i].ID || !again[i].Due.Equal(envelopes[i].Due) || string(again[i].Data) != string(envelopes[i].Data) {
				t.Errorf("message %d was %+v, and is %+v", i, envelopes[i], again[i])
			}
		}
	})
}

// A key is one that this package writes, or is refused.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"00000000000000000001.0a0b0c0d.2", "1.x.2", "", "00000000000000000001.0a0b0c0d.-2", "00000000000000000001.a b.2", "18446744073709551616.x.1"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if e, ok := parseKey(key); ok && (e.key() != key || e.messages < 1) {
			t.Errorf("%q is read as %+v", key, e)
		}
	})
}
