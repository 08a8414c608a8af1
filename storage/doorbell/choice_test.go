package doorbell

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/storagetest"
)

// playListeners writes the rows of listeners whose sockets the test holds.
func playListeners(t *testing.T, s *Doorbell, n int) []*net.UDPConn {
	t.Helper()
	var list []*net.UDPConn
	for i := range n {
		conn := socket(t)
		list = append(list, conn)
		writeRow(t, s, fmt.Sprint("listener", i), func(r *row) { r.Addresses = []string{conn.LocalAddr().String()} })
	}
	return list
}

// receivedBy returns the datagrams of each listener. They are in the sockets' buffers before the sender's call returns,
// and so before the mark that each listener sends itself.
func receivedBy(t *testing.T, list []*net.UDPConn) map[int][][]byte {
	t.Helper()
	got := map[int][][]byte{}
	mark := []byte("that is all")
	for i, conn := range list {
		if _, err := conn.WriteTo(mark, conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		for {
			buf := make([]byte, 2*maxRing)
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(buf[:n], mark) {
				break
			}
			got[i] = append(got[i], buf[:n])
		}
	}
	return got
}

func TestASendRingsAFew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		local bool
		there int
		want  int
	}{
		{"usual", false, 5, 2},
		{"fewer are there", false, 1, 1},
		{"a consumer in the process", true, 5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), Config{Listen: "127.0.0.1:0"}, usualPace())
			list := playListeners(t, s, c.there)
			writeRow(t, s, "other", func(r *row) { r.Queues = []string{"other"} })
			writeRow(t, s, "dead", func(r *row) { r.Until = time.Now().Unix() - 1 })
			if c.local {
				defer s.Listen("queue").Close()
			}
			everybody := map[int]bool{}
			for round := range 60 {
				send(t, s, "queue")
				until(t, "the rings", func() bool { return s.Counts().Sent == int64((round+1)*c.want) })
				rung := receivedBy(t, list)
				if len(rung) != c.want {
					t.Fatalf("round %d: %d listeners rung; want %d", round, len(rung), c.want)
				}
				for i, datagrams := range rung {
					everybody[i] = true
					if r, ok := readDatagram(datagrams[0], newMAC(keyOf(1))); !ok || r.queue != "queue" || len(datagrams) != 1 {
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

// TestTopicRingsAll rings a topic: all listeners are rung, whatever the fanout is. A send after it rings only the
// fanout.
func TestTopicRingsAll(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		s := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), loopback(), usualPace())
		const all = 5
		list := playListeners(t, s, all)
		fanout := 2
		if local {
			sub := s.Listen("queue")
			defer sub.Close()
			fanout--
			s.Ring("queue")
			wantRing(t, sub.Rings(), "a ring of this process")
		} else {
			s.Ring("queue")
		}
		until(t, "the rings", func() bool { return s.Counts().Sent == all })
		send(t, s, "queue")
		until(t, "the rings of a send", func() bool { return s.Counts().Sent == int64(all+fanout) })
		rung := 0
		for _, datagrams := range receivedBy(t, list) {
			rung += len(datagrams)
		}
		if rung != all+fanout {
			t.Errorf("listening itself: %v: %d rings of %d listeners; want one of each, and %d for a send", local, rung, all, fanout)
		}
	}
}

// TestKnownAreRungOnce reads the table again, which must not ring known listeners again.
func TestKnownAreRungOnce(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	s := put(t, storagetest.Intercept(plain(t, filepath.Join(t.TempDir(), "test.db")), calls.Hook), loopback(), quick())
	list := playListeners(t, s, 1)
	for round := range 5 {
		send(t, s, "queue")
		until(t, "the ring and the read", func() bool {
			s.own.send.mu.Lock()
			defer s.own.send.mu.Unlock()
			return calls.Count("query") == round+1 && !s.own.send.reading
		})
		if rung := receivedBy(t, list); len(rung[0]) != 1 {
			t.Errorf("round %d: a listener was rung %d times; want once", round, len(rung[0]))
		}
	}
}

// TestNotItself has the sender's own row in the table.
func TestNotItself(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	for round := range 3 {
		send(t, a, "queue")
		wantRing(t, ring, "a send of its own")
		until(t, "the table to be read", func() bool {
			a.own.send.mu.Lock()
			defer a.own.send.mu.Unlock()
			return a.own.send.begun && !a.own.send.reading
		})
		if got := a.Counts(); got != (Counts{}) {
			t.Errorf("round %d: counts %+v; want no rings to itself", round, got)
		}
	}
	listeners(t, b, 1)
}

// TestGone rings a listener that has crashed, beside a live one.
func TestGone(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	dead := socket(t)
	writeRow(t, b, "dead", func(r *row) { r.Addresses = []string{dead.LocalAddr().String()} })
	dead.Close()
	send(t, b, "queue")
	until(t, "a ring that nobody accepts", func() bool { return b.Counts().Sent > 0 })
	ring := watch(t, a, b, "queue")
	for range 5 {
		send(t, b, "queue")
		wantRing(t, ring, "a send while another listener is dead")
	}
}
