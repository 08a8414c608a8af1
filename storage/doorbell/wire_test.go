package doorbell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

func keyOf(c byte) []byte { return bytes.Repeat([]byte{c}, keySize) }

func TestRingFilter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := newRingFilter(keyOf(1))
	datagram := func(key byte, sender uint64, at time.Duration, queue string) []byte {
		return appendRing(nil, newMAC(keyOf(key)), ring{sender: sender, at: now.Add(at).UnixMicro(), queue: queue})
	}
	first := datagram(1, 1, 0, "queue")
	for _, c := range []struct {
		what string
		b    []byte
		want verdict
	}{
		{"the first", first, fresh},
		{"the same", first, repeated},
		{"an older one", datagram(1, 1, -time.Second, "queue"), repeated},
		{"a newer one", datagram(1, 1, time.Second, "queue"), fresh},
		{"the first again", first, repeated},
		{"an older one of another queue, overtaken", datagram(1, 1, -time.Second, "other"), fresh},
		{"another sender, whose clock is behind", datagram(1, 2, -9*time.Minute, "queue"), fresh},
		{"another sender, whose clock is ahead", datagram(1, 3, 9*time.Minute, "queue"), fresh},
		{"one much too old", datagram(1, 4, -11*time.Minute, "queue"), refused},
		{"one from the future", datagram(1, 5, 11*time.Minute, "queue"), refused},
		{"one for another listener", datagram(2, 6, 0, "queue"), refused},
		{"no queue", datagram(1, 7, 0, ""), refused},
		{"a long queue", datagram(1, 7, 0, strings.Repeat("q", maxQueue)), fresh},
		{"a queue too long", datagram(1, 7, 0, strings.Repeat("q", maxQueue+1)), refused},
		{"nothing", nil, refused},
		{"zeros", make([]byte, maxRing), refused},
		{"one with a tail", append(bytes.Clone(first), 0), refused},
	} {
		if _, got := f.judgeDatagram(c.b, now); got != c.want {
			t.Errorf("%s: verdict %d; want %d", c.what, got, c.want)
		}
	}
	whole := datagram(1, 8, 0, "queue")
	published := appendRing(nil, newMAC(keyOf(1)), ring{sender: 8, at: now.UnixMicro(), request: &pubsub.Request{Kind: pubsub.Ask, Topic: "queue", Data: []byte("data")}})
	for _, whole := range [][]byte{whole, published} {
		for i := range whole {
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				if _, got := f.judgeDatagram(b, now); got != refused {
					t.Errorf("byte %d, bit %d flipped: verdict %d", i, bit, got)
				}
			}
			if _, got := f.judgeDatagram(whole[:i], now); got != refused {
				t.Errorf("the first %d bytes: verdict %d", i, got)
			}
		}
	}
	if r, got := f.judgeDatagram(published, now); got != fresh || r.request == nil || r.queue != "queue" || string(r.request.Data) != "data" {
		t.Errorf("the whole publication: %+v, verdict %d", r, got)
	}
	if _, got := f.judgeDatagram(published, now); got != repeated {
		t.Errorf("the publication again: verdict %d", got)
	}
	if r, got := f.judgeDatagram(whole, now); got != fresh || r.queue != "queue" {
		t.Errorf("the whole ring: %q, verdict %d", r.queue, got)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := newRingFilter(keyOf(1))
	judge := func(sender uint64) verdict {
		_, v := f.judgeDatagram(appendRing(nil, f.mac, ring{sender: sender, at: now.UnixMicro(), queue: "queue"}), now)
		return v
	}
	for i := range uint64(maxStreams) {
		if v := judge(i); v != fresh {
			t.Fatalf("sender %d: verdict %d", i, v)
		}
	}
	if v := judge(maxStreams); v != refused || len(f.lastSeen) != maxStreams {
		t.Errorf("one sender too many: verdict %d, %d remembered; want it refused, lest a replay of the forgotten be fresh", v, len(f.lastSeen))
	}
	now = now.Add(clocks + time.Second)
	if v := judge(maxStreams); v != fresh || len(f.lastSeen) != 1 {
		t.Errorf("when all others are too old: verdict %d, %d remembered; want 1", v, len(f.lastSeen))
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	var b budget
	looks := 0
	for now := time.Duration(0); now < time.Second; looks++ {
		now += 10*time.Microsecond + b.spend(now) // a flood of 100,000 a second
	}
	if most := int(time.Second/slice) * worthless; looks > most+worthless || looks < most/2 {
		t.Errorf("%d worthless datagrams looked at in a second; want up to %d", looks, most)
	}
	var calm budget
	for now := time.Duration(0); now < time.Minute; now += time.Millisecond {
		if wait := calm.spend(now); wait > 0 {
			t.Fatalf("a thousand a second made the listener look at nothing for %v", wait)
		}
	}
}

func TestReadRow(t *testing.T) {
	t.Parallel()
	text := func(change func(*row)) []byte {
		r := row{Version: version, Addresses: []string{"10.0.0.4:7040"}, Queues: []string{"queue"}, Key: keyOf(1), Until: 1}
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		what string
		data []byte
		want string // addresses and queues, empty for refused
	}{
		{"a good one", text(func(*row) {}), "[10.0.0.4:7040] [queue]"},
		{"many addresses", text(func(r *row) {
			r.Addresses = nil
			for i := range 100 {
				r.Addresses = append(r.Addresses, fmt.Sprintf("10.0.0.4:%d", i+1))
			}
		}), "[10.0.0.4:1 10.0.0.4:2 10.0.0.4:3 10.0.0.4:4 10.0.0.4:5 10.0.0.4:6 10.0.0.4:7 10.0.0.4:8] [queue]"},
		{"addresses that must not be rung", text(func(r *row) {
			r.Addresses = []string{"255.255.255.255:1", "224.0.0.1:1", "0.0.0.0:1", "169.254.169.254:80", "[fe80::1%eth0]:1", "10.0.0.4:0", "name:1", "[::ffff:10.0.0.5]:1"}
		}), "[10.0.0.5:1] [queue]"},
		{"topics", text(func(r *row) { r.Received = []string{"Bad", "topic"} }), "[10.0.0.4:7040] [queue] [topic]"},
		{"names that no queue has", text(func(r *row) { r.Queues = []string{"", "Bad", "good", strings.Repeat("q", 51)} }), "[10.0.0.4:7040] [good]"},
		{"no address", text(func(r *row) { r.Addresses = nil }), ""},
		{"a later version", text(func(r *row) { r.Version = 2 }), ""},
		{"a short key", text(func(r *row) { r.Key = r.Key[1:] }), ""},
		{"no JSON", []byte("{"), ""},
		{"nothing", nil, ""},
	} {
		got := ""
		if r, ok := readRow(c.data); ok {
			got = fmt.Sprint(r.addresses, r.Queues)
			if len(r.Received) > 0 {
				got += fmt.Sprint(" ", r.Received)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q; want %q", c.what, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p := usualPace()
	wall := time.Unix(1_800_000_000, 0)
	read := func(known []listener, now time.Duration, etag storage.ETag, until time.Duration) []listener {
		l := listener{row: row{Until: wall.Add(until).Unix()}, id: "id", etag: etag}
		return judge([]listener{l}, known, now, wall, p)
	}
	for _, c := range []struct {
		what  string
		until time.Duration
		want  bool
	}{
		{"just written", p.valid, true},
		{"about to be renewed", p.valid - p.renew, true},
		{"its time has passed", -time.Second, false},
		{"just written, by a clock that is ahead", p.valid + 4*time.Minute, true},
		{"just written, by a clock that is far ahead", p.valid + 6*time.Minute, false},
		{"just written, by a clock that is behind", p.valid - 9*time.Minute, true},
	} {
		if got := read(nil, 0, "a", c.until)[0].alive; got != c.want {
			t.Errorf("%s: alive %v; want %v", c.what, got, c.want)
		}
	}
	// However long its row claims to be valid, a live listener writes it again.
	known := read(nil, time.Hour, "a", p.valid)
	known = read(known, time.Hour+p.renew, "a", p.valid)
	if !known[0].alive {
		t.Error("given up before its time to write")
	}
	known = read(known, time.Hour+2*p.renew, "a", p.valid)
	if known[0].alive {
		t.Error("believed though it has not written again")
	}
	known = read(known, time.Hour+3*p.renew, "b", p.valid)
	if !known[0].alive {
		t.Error("not believed though it has written again")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want []string // texts in the error; none for no error
	}{
		{Config{}, nil},
		{Config{Listen: ":7040"}, nil},
		{Config{Listen: "10.0.0.4:", Advertise: []string{"10.0.0.4", "10.0.0.4:7040", "2001:db8::1", "[2001:db8::1]:7040"}}, nil},
		{Config{Listen: "7040", Advertise: []string{"host", "0.0.0.0:1"}}, []string{`"7040"`, `"host"`, `"0.0.0.0:1"`}},
		{Config{Listen: "localhost:1"}, []string{`"localhost:1"`}},
		{Config{Listen: ":65536"}, []string{`":65536"`}},
		{Config{Advertise: make([]string, maxAddresses+1)}, []string{"9 addresses"}},
	} {
		_, err := c.cfg.withDefaults()
		if (err == nil) != (c.want == nil) || err != nil && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: error %v", c.cfg, err)
			continue
		}
		for _, word := range c.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: error %q; want it to tell of %s", c.cfg, err, word)
			}
		}
	}
}

func FuzzDatagram(f *testing.F) {
	good := appendRing(nil, newMAC(keyOf(1)), ring{sender: 1, at: 2, queue: "queue"})
	f.Add(good)
	f.Add(good[:10])
	f.Add(appendRing(nil, newMAC(keyOf(1)), ring{sender: 1, at: 2, request: &pubsub.Request{Kind: pubsub.Ask, Topic: "topic", Data: []byte("data")}}))
	f.Add(appendAnswer(nil, newMAC(keyOf(1)), pubsub.ID{1}, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := readDatagram(b, newMAC(keyOf(1)))
		if ok && !bytes.Equal(b, appendRing(nil, newMAC(keyOf(1)), r)) {
			t.Errorf("%x is taken for %+v", b, r)
		}
		id, n, ok := readAnswer(b, func(pubsub.ID) []byte { return keyOf(1) })
		if ok && !bytes.Equal(b, appendAnswer(nil, newMAC(keyOf(1)), id, n)) {
			t.Errorf("%x is taken for the answer %d", b, n)
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"v":1,"addresses":["10.0.0.4:7040"],"queues":["queue"],"key":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","until":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := readRow(b)
		if !ok {
			return
		}
		if len(r.addresses) == 0 || len(r.addresses) > maxAddresses || len(r.Key) != keySize {
			t.Errorf("%q is taken for %+v", b, r)
		}
		for _, a := range r.addresses {
			if a.Addr().IsMulticast() || a.Addr().IsUnspecified() || a.Addr().IsLinkLocalUnicast() || a.Port() == 0 {
				t.Errorf("%q makes us ring %v", b, a)
			}
		}
	})
}
