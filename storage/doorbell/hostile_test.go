package doorbell

import (
	"math/rand/v2"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/storagetest"
)

// A stranger is a program that knows a listener's row, or at least its address.
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

// ring makes a valid ring, later than the one before.
func (x *stranger) ring(queue string) []byte {
	x.at = max(x.at+1, time.Now().UnixMicro())
	return appendRing(nil, newMAC(x.l.Key), ring{sender: 1, at: x.at, queue: queue})
}

// settled waits until each datagram sent so far has been handled or lost.
func (x *stranger) settled(s *Doorbell) {
	x.t.Helper()
	before := s.Counts().Accepted
	until(x.t, "a good ring to be accepted", func() bool {
		x.shout(x.ring("marker"))
		return s.Counts().Accepted > before
	})
	until(x.t, "rings held back", func() bool {
		s.own.bells.mu.Lock()
		defer s.own.bells.mu.Unlock()
		return !s.own.bells.queues["queue"].incoming.waiting
	})
}

// listening returns a store that waits for "queue" and "marker" and counts its calls, and a stranger to it.
func listening(t *testing.T) (s *Doorbell, calls *storagetest.Calls, ring <-chan struct{}, x *stranger) {
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

// TestWorthlessRings sends invalid and repeated rings to a real socket. None may ring a consumer or cost a request.
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

// TestFlood checks that a ring gets through after a flood of garbage, and that the flood costs no request.
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

// TestInsiderRingsTooOften rings with the key as fast as possible: consumers are rung a bounded number of times.
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
	t.Logf("%d rings accepted, %d passed on, %d allowed", s.Counts().Accepted, heeded, most)
	if heeded > most || heeded == 0 {
		t.Errorf("%d rings passed on; want at most %d", heeded, most)
	}
}
