package signal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

func TestWire(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "orders.eu.paid", strings.Repeat("x", MaxName)} {
		for _, data := range [][]byte{nil, []byte("data"), make([]byte, MaxData)} {
			frame, err := encode(name, data)
			if err != nil {
				t.Fatal(err)
			}
			gotName, gotData, ok := decode(frame)
			if gotName != name || !bytes.Equal(gotData, data) || !ok {
				t.Errorf("%s with %d bytes: got %s with %d bytes, %v", name, len(data), gotName, len(gotData), ok)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	_, err := encode("a b", make([]byte, MaxData+1))
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "1025 bytes; want at most 1024") {
		t.Errorf("1 KB and a byte: got %v", err)
	}
	if !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a bad name beside it: got %v", err)
	}
}

// A frame of another program is ignored, unless it is a signal.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{version})
	f.Add([]byte{version, 0})
	f.Add([]byte{version, 2, 'a'})
	f.Add([]byte{version + 1, 1, 'a'})
	f.Add([]byte{version, 1, 'a', 'd'})
	f.Add([]byte{version, 3, 'a', '.', '.'})
	f.Add(append([]byte{version, 1, 'a'}, make([]byte, MaxData+1)...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		l := &Listener{patterns: []string{">"}, room: 1}
		name, data, ok := decode(frame)
		got := l.hear(frame, 1)
		if want := map[bool]int{true: 1}[ok]; got != want {
			t.Errorf("a listener took %d, want %d", got, want)
		}
		if !ok {
			return
		}
		again, err := encode(name, data)
		if err != nil || !bytes.Equal(again, frame) {
			t.Errorf("%x: encoded again: %x, %v", frame, again, err)
		}
	})
}
