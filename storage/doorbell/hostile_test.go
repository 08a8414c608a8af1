package doorbell

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// writeRow writes a listener's row by hand.
func writeRow(t *testing.T, s *store, id string, change func(*row)) {
	t.Helper()
	r := row{Version: version, Addresses: []string{"127.0.0.1:9"}, Queues: []string{"queue"}, Key: keyOf(1), Until: time.Now().Add(5 * time.Minute).Unix()}
	change(&r)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Table(tableName).Put(t.Context(), partition, id, data, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// socket opens one that a test hears or shouts with.
func socket(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A stranger knows a listener's row, or at least its address.
type stranger struct {
	t    *testing.T
	conn *net.UDPConn
	l    listener
	at   int64
}

func (x *stranger) shout(b []byte) {
	x.t.Helper()
	if _, err := x.conn.WriteToUDPAddrPort(b, x.l.addresses[0]); err != nil {
		x.t.Fatal(err)
	}
}

// ring makes a good ring, later than the last.
func (x *stranger) ring(queue string) []byte {
	x.at = max(x.at+1, time.Now().UnixMicro())
	return appendRing(nil, newMAC(x.l.Key), ring{sender: 1, at: x.at, queue: queue})
}

// settled waits until all that was shouted has been heard or lost, and passed on.
func (x *stranger) settled(s *store) {
	x.t.Helper()
	before := s.Counts().Heard
	until(x.t, "a good ring to be heard", func() bool {
		x.shout(x.ring("marker"))
		return s.Counts().Heard > before
	})
	until(x.t, "rings held back", func() bool {
		s.bells.mu.Lock()
		defer s.bells.mu.Unlock()
		return !s.bells.queues["queue"].heard.waiting
	})
}

// listening is a store with its calls counted, waiting for "queue" and "marker", and a stranger to it.
func listening(t *testing.T) (s *store, calls *storagetest.Calls, ring <-chan struct{}, x *stranger) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	calls = new(storagetest.Calls)
	s = put(t, storagetest.Intercept(plain(t, path), calls.Hook), loopback(), usualPace())
	other := put(t, plain(t, path), loopback(), usualPace())
	watch(t, s, other, "marker")
	ring = watch(t, s, other, "queue")
	until(t, "the listener's tidying", func() bool { return calls.Count("query") == 1 })
	return s, calls, ring, &stranger{t: t, conn: socket(t), l: listeners(t, other, 1)[0]}
}

// TestWorthlessRings sends all that is no ring to a real socket. None may be heeded or cost a request.
func TestWorthlessRings(t *testing.T) {
	t.Parallel()
	s, calls, queue, x := listening(t)
	before := calls.Count()
	good := x.ring("queue")
	x.shout(good)
	wantRing(t, queue, "a good ring")
	for range 50 {
		x.shout(good) // doubled, replayed
	}
	forged := appendRing(nil, newMAC(keyOf(9)), ring{sender: 1, at: x.at + 1, queue: "queue"})
	late := appendRing(nil, newMAC(x.l.Key), ring{sender: 2, at: time.Now().Add(-time.Hour).UnixMicro(), queue: "queue"})
	huge := make([]byte, 9000)
	for _, b := range [][]byte{forged, late, huge, nil, {version}, []byte("GET / HTTP/1.1\r\n\r\n")} {
		x.shout(b)
	}
	x.shout(x.ring("unwatched"))
	x.settled(s)
	if got := s.Counts(); got.Repeated != 50 || got.Refused != 6 || got.Sent != 0 {
		t.Errorf("counts %+v; want 50 repeated and 6 refused", got)
	}
	select {
	case <-queue:
		t.Error("a worthless ring was heeded")
	default:
	}
	if n := calls.Count() - before; n != 0 {
		t.Errorf("%d storage requests made for rings", n)
	}
}

// TestFlood sees that rings get through after a flood of garbage, and that it costs no request.
func TestFlood(t *testing.T) {
	t.Parallel()
	s, calls, queue, x := listening(t)
	before := calls.Count()
	garbage := make([]byte, maxRing)
	r := rand.NewChaCha8([32]byte{})
	const many = 20_000
	began := time.Now()
	for range many {
		r.Read(garbage)
		garbage[0] = version
		x.shout(garbage)
	}
	x.settled(s)
	got := s.Counts()
	t.Logf("of %d datagrams %d were looked at", many, got.Refused)
	if most := worthless * (int64(time.Since(began)/slice) + 2); got.Refused == 0 || got.Refused > most {
		t.Errorf("counts %+v; want at most %d refused", got, most)
	}
	if len(queue) != 0 || calls.Count() != before {
		t.Errorf("a flood brought %d rings and %d requests", len(queue), calls.Count()-before)
	}
	x.shout(x.ring("queue"))
	wantRing(t, queue, "a flood")
}

// TestInsiderRingsTooOften has the key and rings as fast as it can: consumers are rung a bounded number of times.
func TestInsiderRingsTooOften(t *testing.T) {
	t.Parallel()
	s, _, queue, x := listening(t)
	began := time.Now()
	heeded, stop, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-queue:
				heeded++
			case <-stop:
				return
			}
		}
	}()
	for range 20_000 {
		x.shout(x.ring("queue"))
	}
	x.settled(s)
	close(stop)
	<-done
	most := int(time.Since(began)/pause) + 2
	t.Logf("%d rings heard, %d passed on, %d allowed", s.Counts().Heard, heeded, most)
	if heeded > most || heeded == 0 {
		t.Errorf("%d rings passed on; want at most %d", heeded, most)
	}
}

// ears are listeners that a test plays.
func ears(t *testing.T, s *store, n int) []*net.UDPConn {
	t.Helper()
	var list []*net.UDPConn
	for i := range n {
		conn := socket(t)
		list = append(list, conn)
		writeRow(t, s, fmt.Sprint("ear", i), func(r *row) { r.Addresses = []string{conn.LocalAddr().String()} })
	}
	return list
}

// heard takes what the ears have got, by ear. The sockets' buffers have it before the sender's call returns.
func heard(t *testing.T, list []*net.UDPConn) map[int][][]byte {
	t.Helper()
	got := map[int][][]byte{}
	for i, conn := range list {
		if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for {
			buf := make([]byte, 2*maxRing)
			n, err := conn.Read(buf)
			if err != nil {
				break
			}
			got[i] = append(got[i], buf[:n])
		}
	}
	return got
}

func TestFanout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fanout int
		local  bool
		want   int
	}{
		{"usual", 0, false, 2},
		{"more", 4, false, 4},
		{"more than there are", 9, false, 5},
		{"a consumer in the process", 0, true, 1},
		{"nobody else needed", 1, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), Config{Listen: "127.0.0.1:0", Fanout: c.fanout}, usualPace())
			list := ears(t, s, 5)
			writeRow(t, s, "other", func(r *row) { r.Queues = []string{"other"} })
			writeRow(t, s, "dead", func(r *row) { r.Until = time.Now().Unix() - 1 })
			if c.local {
				_, stop := s.Wake("queue")
				defer stop()
			}
			everybody := map[int]bool{}
			for round := range 60 {
				send(t, s, "queue")
				until(t, "the rings", func() bool { return s.Counts().Sent == int64((round+1)*c.want) })
				rung := heard(t, list)
				if len(rung) != c.want {
					t.Fatalf("round %d: %d listeners rung; want %d", round, len(rung), c.want)
				}
				for i, datagrams := range rung {
					everybody[i] = true
					if r, ok := readRing(datagrams[0], newMAC(keyOf(1))); !ok || r.queue != "queue" || len(datagrams) != 1 {
						t.Fatalf("listener %d got %x; want one ring", i, datagrams)
					}
				}
			}
			if c.want > 0 && len(everybody) != len(list) { // by chance once in a hundred thousand
				t.Errorf("only %d listeners of %d were ever rung", len(everybody), len(list))
			}
		})
	}
}

// TestKnownAreRungOnce reads the table again: that is no reason to ring again.
func TestKnownAreRungOnce(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	s := put(t, storagetest.Intercept(plain(t, filepath.Join(t.TempDir(), "test.db")), calls.Hook), loopback(), quick())
	list := ears(t, s, 1)
	for round := range 5 {
		send(t, s, "queue")
		until(t, "the ring and the read", func() bool {
			s.others.mu.Lock()
			defer s.others.mu.Unlock()
			return calls.Count("query") == round+1 && !s.others.reading
		})
		if rung := heard(t, list); len(rung[0]) != 1 {
			t.Errorf("round %d: a listener was rung %d times; want once", round, len(rung[0]))
		}
	}
}

// TestNotItself has a row of its own in the table.
func TestNotItself(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	for round := range 3 {
		send(t, a, "queue")
		wantRing(t, ring, "a send of its own")
		until(t, "the table to be read", func() bool {
			a.others.mu.Lock()
			defer a.others.mu.Unlock()
			return a.others.begun && !a.others.reading
		})
		if got := a.Counts(); got != (Counts{}) {
			t.Errorf("round %d: counts %+v; want no rings to itself", round, got)
		}
	}
	listeners(t, b, 1)
}

// TestGone rings a listener that has died without a word, beside one that lives.
func TestGone(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	dead := socket(t)
	writeRow(t, b, "dead", func(r *row) { r.Addresses = []string{dead.LocalAddr().String()} })
	dead.Close()
	send(t, b, "queue")
	until(t, "a ring that nobody hears", func() bool { return b.Counts().Sent > 0 })
	ring := watch(t, a, b, "queue")
	for range 5 {
		send(t, b, "queue")
		wantRing(t, ring, "a send while another listener is dead")
	}
}

func TestAdvertised(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	b := put(t, plain(t, path), loopback(), quick())
	for _, c := range []struct {
		cfg  Config
		want string // with # for the port
	}{
		{loopback(), "[127.0.0.1:#]"},
		{Config{Listen: "127.0.0.1:0", Advertise: []string{"10.0.0.4", "10.0.0.4:9", "2001:db8::1", "10.0.0.4"}}, "[10.0.0.4:# 10.0.0.4:9 [2001:db8::1]:#]"},
	} {
		a := put(t, plain(t, path), c.cfg, quick())
		_, stop := a.Wake("queue")
		l := listeners(t, b, 1)[0]
		if got, want := fmt.Sprint(l.addresses), strings.ReplaceAll(c.want, "#", fmt.Sprint(l.addresses[0].Port())); got != want {
			t.Errorf("%+v: advertised %v; want %v", c.cfg, got, want)
		}
		stop()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCopies sees that a ring which comes by several ways is heeded once.
func TestCopies(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	l := listeners(t, b, 1)[0]
	writeRow(t, b, l.id, func(r *row) {
		*r = l.row
		r.Addresses = []string{l.Addresses[0], l.Addresses[0], l.Addresses[0]}
	})
	send(t, b, "queue")
	wantRing(t, ring, "a send")
	until(t, "the other copies", func() bool { return a.Counts().Repeated == 2 })
	if got, sent := a.Counts(), b.Counts().Sent; got.Heard != 1 || got.Refused != 0 || sent != 1 {
		t.Errorf("%d rings sent, the listener counts %+v; want 1", sent, got)
	}
}
