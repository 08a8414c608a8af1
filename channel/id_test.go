package channel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

func TestNewIDIsAUUIDv7(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	seen := map[string]bool{}
	for range 1000 {
		id := channel.NewID()
		u, err := uuid.Parse(id)
		if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != id {
			t.Fatalf("got %s (version %v, error %v), want a canonical UUIDv7", id, u.Version(), err)
		}
		at, ok := channel.IDTime(id)
		if !ok || at.Before(before) || at.After(time.Now()) {
			t.Fatalf("ID %s: got time %v, %v; want about %v", id, at, ok, before)
		}
		if seen[id] {
			t.Fatalf("ID %s came twice", id)
		}
		seen[id] = true
	}
}

func TestIDTime(t *testing.T) {
	t.Parallel()
	replace := func(i int, c string) string { return timedID[:i] + c + timedID[i+1:] }
	for _, test := range []struct {
		name, id string
		ok       bool
	}{
		{"version 7", timedID, true},
		{"variant 8", replace(19, "8"), true},
		{"variant 9", replace(19, "9"), true},
		{"variant a", replace(19, "a"), true},
		{"variant b", replace(19, "b"), true},
		{"variant 7", replace(19, "7"), false},
		{"variant c", replace(19, "c"), false},
		{"variant 0", replace(19, "0"), false},
		{"version 1", replace(14, "1"), false},
		{"version 4", replace(14, "4"), false},
		{"version 8", replace(14, "8"), false},
		{"upper case", strings.ToUpper(timedID), false},
		{"one upper case letter", replace(35, "F"), false},
		{"no hex", replace(35, "g"), false},
		{"hyphen too many", replace(35, "-"), false},
		{"hyphen missing", replace(8, "0"), false},
		{"hyphen moved", "0190b6a-27b1c-7def-8123-456789abcdef", false},
		{"without hyphens", strings.ReplaceAll(timedID, "-", ""), false},
		{"braces", "{" + timedID + "}", false},
		{"URN", "urn:uuid:" + timedID, false},
		{"short", timedID[:35], false},
		{"long", timedID + "0", false},
		{"empty", "", false},
		{"key", "order-17", false},
		{"key as long as a UUID", strings.Repeat("7", 36), false},
		{"not ASCII", "0190b6a2-7b1c-7def-8123-456789abcdé", false},
	} {
		at, ok := channel.IDTime(test.id)
		if ok != test.ok {
			t.Errorf("%s: IDTime(%q): got %v, want %v", test.name, test.id, ok, test.ok)
		}
		if want := time.UnixMilli(0x0190b6a27b1c); ok && !at.Equal(want) {
			t.Errorf("%s: IDTime(%q): got %v, want %v", test.name, test.id, at, want)
		}
		if !ok && !at.IsZero() {
			t.Errorf("%s: IDTime(%q): got time %v for an ID without one", test.name, test.id, at)
		}
	}
	last, ok := channel.IDTime("ffffffff-ffff-7fff-bfff-ffffffffffff")
	if want := time.UnixMilli(1<<48 - 1); !ok || !last.Equal(want) {
		t.Errorf("the last time: got %v, %v; want %v", last, ok, want)
	}
}

func TestDerivedIDIsPure(t *testing.T) {
	t.Parallel()
	// Every later version must derive the same IDs, because copies of messages outlive versions.
	for _, test := range []struct {
		parent string
		parts  []string
		want   string
	}{
		{timedID, []string{"event", "0"}, "0190b6a2-7b1c-7442-89ec-aa544fe6d9da"},
		{"order-17", []string{"event", "0"}, "ae0dd358-4696-8807-91c4-53881d037e6d"},
		{"order-17", nil, "3486fac8-474e-89cf-8e5e-49566e54b1fa"},
	} {
		for range 2 {
			if got := channel.DerivedID(test.parent, test.parts...); got != test.want {
				t.Errorf("DerivedID(%q, %q): got %s, want %s", test.parent, test.parts, got, test.want)
			}
		}
	}
}

func TestDerivedIDKeepsTheTime(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{timedID, channel.NewID(), "ffffffff-ffff-7fff-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000"} {
		id := parent
		for range 5 { // as through the stages of a chain
			id = channel.DerivedID(id, "event", "1")
			u, err := uuid.Parse(id)
			if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
				t.Fatalf("got %s, error %v; want a UUIDv7", id, err)
			}
			got, ok := channel.IDTime(id)
			if want, _ := channel.IDTime(parent); !ok || !got.Equal(want) {
				t.Errorf("%s from %s: got time %v, %v; want %v", id, parent, got, ok, want)
			}
		}
	}
}

func TestDerivedIDOfAKeyHasNoTime(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{"order-17", "", strings.ToUpper(timedID), uuid.NewString(), "\xff"} {
		id := channel.DerivedID(parent, "event", "1")
		u, err := uuid.Parse(id)
		if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
			t.Errorf("from %q: got %s, error %v; want a UUIDv8", parent, id, err)
		}
		if at, ok := channel.IDTime(id); ok {
			t.Errorf("from %q: got time %v, want none", parent, at)
		}
	}
}

// Parts are kept apart: two lists of parts whose joined text is the same give different IDs.
func TestDerivedIDTellsPartsApart(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{timedID, "order-17"} {
		lists := [][]string{
			nil, {""}, {"", ""}, {"a"}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"b", "a"}, {"a", "b", ""}, {"a\x00b"}, {"a", "\x00b"},
			{"event", "1"}, {"event", "11"}, {"event1", "1"}, {"event", "1", "1"}, {"\x00\x00\x00\x00\x00\x00\x00\x01a"},
			{"1", "2"}, {"12"}, {"12", ""},
		}
		seen := map[string][]string{}
		for _, parts := range lists {
			id := channel.DerivedID(parent, parts...)
			if other, ok := seen[id]; ok {
				t.Errorf("parts %q and %q of %s give the same ID", parts, other, parent)
			}
			seen[id] = parts
		}
	}
	if a, b := channel.DerivedID("a", "bc"), channel.DerivedID("ab", "c"); a == b {
		t.Error("the parent runs into the parts")
	}
	if a, b := channel.DerivedID(timedID, "x"), channel.DerivedID(timedID[:35]+"e", "x"); a == b {
		t.Error("two parents of one time give the same ID")
	}
}

func FuzzID(f *testing.F) {
	for _, s := range []string{timedID, "", "order-17", strings.ToUpper(timedID), strings.Repeat("-", 36), "0190b6a2-7b1c-4def-8123-456789abcdef", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		at, ok := channel.IDTime(id)
		u, err := uuid.Parse(id)
		canonical := err == nil && u.String() == id
		if want := canonical && u.Version() == 7 && u.Variant() == uuid.RFC4122; ok != want {
			t.Fatalf("IDTime(%q): got %v, want %v", id, ok, want)
		}
		if ok {
			var ms int64
			for _, b := range u[:6] {
				ms = ms<<8 | int64(b)
			}
			if at.UnixMilli() != ms {
				t.Fatalf("IDTime(%q): got %d, want %d", id, at.UnixMilli(), ms)
			}
		}
		child := channel.DerivedID(id, "x")
		if child != channel.DerivedID(id, "x") || wire.CheckID(child) != nil || child == id {
			t.Fatalf("DerivedID(%q): got %q", id, child)
		}
		childAt, childOK := channel.IDTime(child)
		if childOK != ok || !childAt.Equal(at) {
			t.Fatalf("DerivedID(%q): got time %v, %v; want %v, %v", id, childAt, childOK, at, ok)
		}
		if wire.CheckID(id) == nil {
			e := channel.Envelope{ID: id, Source: "/web", Kind: "k"}
			got, err := wire.Decode(mustEncode(t, e))
			if err != nil || got.ID != id {
				t.Fatalf("ID %q came back as %q, error %v", id, got.ID, err)
			}
		}
	})
}

func BenchmarkDerivedID(b *testing.B) {
	id := channel.NewID()
	b.ReportAllocs()
	for b.Loop() {
		channel.DerivedID(id, "event", "0")
	}
}

func ExampleDerivedID() {
	const command = "0190b6a2-7b1c-7def-8123-456789abcdef"
	event := channel.DerivedID(command, "event", "0")
	again := channel.DerivedID(command, "event", "0")
	other := channel.DerivedID(command, "event", "1")
	at, _ := channel.IDTime(event)
	fmt.Println(event == again, event == other, at.UTC().Format(time.RFC3339))
	// Output: true false 2024-07-15T13:43:40Z
}

// An ID that is derived for a time carries it, and depends on the time and the parts alone.
func TestDerivedAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 10, 25, 1, 15, 0, 0, time.UTC)
	id := wire.DerivedAt(at, "nightly", "a")
	if got, ok := channel.IDTime(id); !ok || !got.Equal(at) {
		t.Errorf("ID %s: got time %v, %v; want %v", id, got, ok, at)
	}
	if again := wire.DerivedAt(at.Local(), "nightly", "a"); again != id {
		t.Errorf("the same parts at the same time: got %s and %s", id, again)
	}
	for _, other := range []string{wire.DerivedAt(at, "nightly", "b"), wire.DerivedAt(at, "nightlya"), wire.DerivedAt(at.Add(time.Second), "nightly", "a")} {
		if other[14:] == id[14:] && other[:13] == id[:13] {
			t.Errorf("other parts or another time: got %s again", other)
		}
	}
}
