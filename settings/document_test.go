package settings

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/sqlite"
)

// The current document keeps as many of the last endings as it has room for, however long the reasons in them are. So
// the next change can always be written.
func TestLongReasonsLeaveRoomForTheNextChange(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := newBook(s, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []Refusal
	for range maxRefusals {
		reasons = append(reasons, Refusal{strings.Repeat(`<`, maxBy), strings.Repeat(`"`, maxReason)})
	}
	var seen sighting
	if err := b.readOrCreate(t.Context(), &seen); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 2*maxEnded; n++ {
		c := candidate{Version: n, Values: []byte("{}"), By: "ada", Since: time.Now()}
		if err := b.write(t.Context(), &seen, seen.doc.propose(c)); err != nil {
			t.Fatalf("propose version %d: %v", n, err)
		}
		if err := b.write(t.Context(), &seen, seen.doc.settle(Refused, reasons, time.Now())); err != nil {
			t.Fatalf("refuse version %d: %v", n, err)
		}
		if e, ok := seen.doc.of(n); !ok || len(e.Reasons) != maxRefusals {
			t.Fatalf("version %d ended as %+v, %v", n, e, ok)
		}
	}
	var again sighting
	if err := b.read(t.Context(), &again); err != nil || len(again.doc.Ended) != len(seen.doc.Ended) {
		t.Errorf("got %d endings, %v; want %d", len(again.doc.Ended), err, len(seen.doc.Ended))
	}
}
