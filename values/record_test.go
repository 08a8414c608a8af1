package values

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, id := range []string{
		"a key", channel.NewID(), channel.DerivedID("a key", "event", "0"), channel.DerivedID(channel.NewID(), "event", "0"),
		"00000000-0000-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff", "7fffffff-ffff-7000-8000-000000000000",
	} {
		x := entryOf(&channel.Envelope{ID: id, Kind: "a.b", Data: []byte("{}")}, now)
		if got := unpack(x.pack(nil)); got != x {
			t.Errorf("%s: got %+v, want %+v", id, got, x)
		}
		if len(x.pack(nil)) != entrySize {
			t.Errorf("%s: packed: %d bytes, want %d", id, len(x.pack(nil)), entrySize)
		}
		if err := storage.CheckKey(x.rowKey()); err != nil {
			t.Errorf("%s: row key: %v", id, err)
		}
		_, timed := channel.IDTime(id)
		if x.keyed == timed {
			t.Errorf("%s: keyed is %v", id, x.keyed)
		}
	}
}

func TestEntryTellsMessagesApart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	base := channel.Envelope{ID: "id", Kind: "a.b", Data: []byte("{}")}
	x := entryOf(&base, now)
	for _, e := range []channel.Envelope{
		{ID: "id", Kind: "a.bc", Data: []byte("{}")}, {ID: "id", Kind: "a.b", Data: []byte("[]")}, {ID: "id", Kind: "a.b"},
	} {
		if y := entryOf(&e, now); y.id != x.id || y.content == x.content {
			t.Errorf("%+v: got the entry of %+v", e, base)
		}
	}
	history := base
	history.Attempts, history.LastError, history.Time = 3, "no", now
	if entryOf(&history, now) != x {
		t.Error("history makes it another message")
	}
}

// Row keys are in the order of their times; those of IDs without a time are apart.
func TestRowKeysSortByTime(t *testing.T) {
	t.Parallel()
	var last string
	for _, ms := range []int64{0, 1, 0x10, 1 << 20, 1<<40 + 5, 1<<47 - 1} {
		key := entry{time: ms}.rowKey()
		if key <= last {
			t.Errorf("%s does not come after %s", key, last)
		}
		last = key
	}
	if key := (entry{keyed: true}).rowKey(); key <= last {
		t.Errorf("key row %s does not come after %s", key, last)
	}
}

// A time beside the ID counts, whatever the ID is. Then the entry is keyed.
func TestEntryCountsFromTheTimeBesideTheID(t *testing.T) {
	t.Parallel()
	now := time.Now()
	timed, since := channel.NewID(), now.Add(-time.Hour)
	for _, test := range []struct {
		e     channel.Envelope
		ms    int64
		keyed bool
	}{
		{channel.Envelope{ID: channel.IDAt(since)}, since.UnixMilli(), false},
		{channel.Envelope{ID: timed, Since: since}, since.UnixMilli(), true},
		{channel.Envelope{ID: "a key", Since: since, Time: now}, since.UnixMilli(), true},
		{channel.Envelope{ID: "a key", Time: since}, since.UnixMilli(), true},
		{channel.Envelope{ID: "a key"}, now.UnixMilli(), true},
		{channel.Envelope{ID: "a key", Time: time.Date(1066, 1, 1, 0, 0, 0, 0, time.UTC)}, 0, true},
		{channel.Envelope{ID: "a key", Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, lastTime, true},
	} {
		x := entryOf(&test.e, now)
		if x.time != test.ms || x.keyed != test.keyed {
			t.Errorf("%+v: got time %d, keyed %v; want %d, %v", test.e, x.time, x.keyed, test.ms, test.keyed)
		}
		if got := unpack(x.pack(nil)); got != x {
			t.Errorf("%+v: got %+v back, want %+v", test.e, got, x)
		}
	}
}

// The row of a keyed entry is found by its ID, and by the row that ends it.
func TestRowsOfKeyedEntries(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, ms := range []int64{0, time.Now().UnixMilli(), lastTime} {
		x := entry{time: ms, keyed: true, id: messageDigest{1, 0xff}}
		end := x.endKey(month)
		if got, ok := endOf(end); !ok || got != x.rowKey() {
			t.Errorf("%s ends %s, %v; want %s", end, got, ok, x.rowKey())
		}
		if end <= timeKey(ms+month.Milliseconds()) || end >= timeKey(ms+month.Milliseconds()+1) || end >= keyedRows {
			t.Errorf("%s doesn't lie a month after %d", end, ms)
		}
		if err := storage.CheckKey(end); err != nil {
			t.Error(err)
		}
		for _, other := range []messageDigest{{1, 0xff}, {1, 0xfe, 0xff}, {1, 0xff, 1}} {
			y := entry{time: ms + 5, keyed: true, id: other}
			r := y.keyedRow()
			if got, want := r.From <= x.rowKey() && x.rowKey() < r.To, other == x.id; got != want {
				t.Errorf("a copy of %x finds %s: %v, want %v", other, x.rowKey(), got, want)
			}
		}
		x.keyed = false
		if got, ok := endOf(x.rowKey()); ok {
			t.Errorf("%s ends %s; want no row", x.rowKey(), got)
		}
	}
}

// The record is compared with a plain list.
func TestRecordAgainstAList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var rec record
		var list, left []entry
		for i := range 300 {
			x := entry{time: int64(r.IntN(1000)), keyed: r.IntN(4) == 0}
			copy(x.id[:], fmt.Sprintf("%012d", i))
			committed := rec.len()
			rec.add(x)
			list = append(list, x)
			if r.IntN(10) > 0 {
				continue
			}
			keep := 1 + r.IntN(30)
			gone := rec.leaving(committed, keep)
			if want := max(0, min(len(list)-keep, committed)); len(gone) != want {
				t.Fatalf("seed %d: %d leave, want %d", seed, len(gone), want)
			}
			rec.forget(gone)
			for _, g := range gone {
				if g == x {
					t.Fatalf("seed %d: an entry left that isn't committed", seed)
				}
				for _, y := range list[:committed] {
					if y.time < g.time && !slices.Contains(gone, y) {
						t.Fatalf("seed %d: %d left before %d", seed, g.time, y.time)
					}
				}
			}
			list = slices.DeleteFunc(list, func(y entry) bool { return slices.Contains(gone, y) })
			left = append(left, gone...)
		}
		newest := int64(0)
		for _, x := range left {
			if !x.keyed {
				newest = max(newest, x.time)
			}
			if _, ok := rec.find(x); ok {
				t.Fatalf("seed %d: what left is still there", seed)
			}
		}
		for _, x := range list {
			if got, ok := rec.find(x); !ok || got != x {
				t.Fatalf("seed %d: got %+v, %v, want %+v", seed, got, ok, x)
			}
		}
		if rec.len() != len(list) || rec.watermark != newest || rec.left != (len(left) > 0) {
			t.Fatalf("seed %d: got %d entries, watermark %d, left %v", seed, rec.len(), rec.watermark, rec.left)
		}
	}
}

type fuzzed struct {
	N int            `json:"n"`
	M map[string]int `json:"m,omitempty"`
}

// Whatever bytes the store holds, decoding gives an error or a document that is the same when it is stored again.
func FuzzDecodeDocument(f *testing.F) {
	d := document[fuzzed]{value: fuzzed{N: 1, M: map[string]int{"a": 2}}, version: 3, emitted: 4}
	d.record.add(entryOf(&channel.Envelope{ID: "x", Kind: "k"}, time.Now()))
	d.pending = []pending{{Message: messageDigest{1}, At: time.Now(), Events: []jsontext.Value{jsontext.Value(`{"a":1}`)}}}
	b, err := d.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"value":null,"applied":"","watermark":-1,"left":true}`))
	f.Add([]byte(`{"value":{"n":1e3},"pending":[{"message":"AAAAAAAAAAAAAAAA","at":"2026-01-01T00:00:00Z","events":[{}, 1]}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := decodeDocument[fuzzed](storage.Blob{Body: body, ETag: "e"})
		if err != nil {
			return
		}
		again, err := d.encode()
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		d2, err := decodeDocument[fuzzed](storage.Blob{Body: again, ETag: "e"})
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if d.version != d2.version || d.emitted != d2.emitted || !bytes.Equal(d.record.packed, d2.record.packed) ||
			d.record.watermark != d2.record.watermark || d.record.left != d2.record.left || len(d.pending) != len(d2.pending) {
			t.Fatalf("got %+v, want %+v", d2, d)
		}
		third, err := d2.encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("got %s, %v, want %s", third, err, again)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add(make([]byte, entrySize))
	f.Add(bytes.Repeat([]byte{0xff}, entrySize))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := record{packed: b}
		if err := r.check(); (err == nil) != (len(b)%entrySize == 0) {
			t.Fatalf("%d bytes: got %v", len(b), err)
		} else if err != nil {
			return
		}
		var again []byte
		for i := range r.len() {
			again = unpack(b[i*entrySize:]).pack(again)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("got %x, want %x", again, b)
		}
	})
}
