package doorbell

import (
	"context"
	"crypto/rand"
	"errors"
	"hash"
	"maps"
	"net"
	"time"

	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const (
	clocks     = 10 * time.Minute       // the time in a ring may be this far off
	maxStreams = 20000                  // remembered pairs of a sender and a queue
	slice      = 100 * time.Millisecond // the period for which worthless counts
	worthless  = 1000
)

// startListening opens the socket, and begins to receive and to keep the row, until the store is closed. s.mu is held.
func (s *store) startListening() error {
	packets, err := net.ListenPacket("udp", s.cfg.Listen)
	if err != nil {
		return err
	}
	conn := packets.(*net.UDPConn) // the network udp returns this type
	key := make([]byte, keySize)
	rand.Read(key)
	s.listening = true
	s.all.Go(func() {
		defer conn.Close() // ends receive
		s.publish(key, conn.LocalAddr().(*net.UDPAddr).AddrPort())
	})
	s.all.Go(func() { s.receive(conn, key) })
	return nil
}

// receive receives datagrams until the socket is closed.
func (s *store) receive(conn *net.UDPConn, key []byte) {
	filter := newRingFilter(key)
	desk := &pubsub.Desk{Receivers: s.receivers}
	slots := make(chan struct{}, mostAnswers)
	var b budget
	buf := make([]byte, maxPublication+1) // one byte more than the longest, to notice a longer datagram
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			x, v := filter.judgeDatagram(buf[:n], time.Now())
			switch v {
			case fresh:
				if x.request != nil {
					s.answer(conn, from, key, desk, slots, *x.request)
				} else if s.bells.ringForOther(x.queue) {
					s.counts.accepted.Add(1)
				}
				continue
			case repeated:
				s.counts.repeated.Add(1)
			case refused:
				s.counts.refused.Add(1)
			}
		}
		if !b.pay(s.ctx, s.bells.now()) {
			return
		}
	}
}

// A verdict is the result of judging a datagram.
type verdict int

const (
	fresh verdict = iota
	repeated
	refused
)

// A ringFilter tells rings and publications from other datagrams.
type ringFilter struct {
	mac      hash.Hash
	lastSeen map[streamKey]int64 // the time of each stream's last ring
}

// A streamKey names a sender's rings of one queue, or its publications on one topic. Others may overtake them.
type streamKey struct {
	sender    uint64
	queue     string
	published bool
}

func newRingFilter(key []byte) *ringFilter {
	return &ringFilter{mac: newMAC(key), lastSeen: map[streamKey]int64{}}
}

// judgeDatagram judges a datagram. It is fresh only once, and only if the stream's last one was earlier. So a replay
// has no effect, and clocks need not agree well. A stream is forgotten when its last datagram is too old to be accepted
// again.
func (f *ringFilter) judgeDatagram(b []byte, now time.Time) (ring, verdict) {
	r, ok := readDatagram(b, f.mac)
	oldest := now.Add(-clocks).UnixMicro()
	if !ok || r.at < oldest || r.at > now.Add(clocks).UnixMicro() {
		return ring{}, refused
	}
	stream := streamKey{r.sender, r.queue, r.request != nil}
	last, known := f.lastSeen[stream]
	if known && r.at <= last {
		return ring{}, repeated
	}
	if !known && len(f.lastSeen) >= maxStreams {
		maps.DeleteFunc(f.lastSeen, func(_ streamKey, at int64) bool { return at < oldest })
		if len(f.lastSeen) >= maxStreams {
			return ring{}, refused
		}
	}
	f.lastSeen[stream] = r.at
	return r, fresh
}

// A budget bounds the work for worthless datagrams. Those beyond it wait in the socket's buffer, or are lost there.
type budget struct {
	end  time.Duration // of the current slice
	left int
}

// spend counts one datagram, and returns how long to wait before the next.
func (b *budget) spend(now time.Duration) time.Duration {
	if now >= b.end {
		b.end, b.left = now+slice, worthless
	}
	b.left--
	if b.left > 0 {
		return 0
	}
	return b.end - now
}

// pay counts one worthless datagram, and waits if there were too many. It returns false when ctx ends.
func (b *budget) pay(ctx context.Context, now time.Duration) bool {
	wait := b.spend(now)
	if wait <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
