package doorbell

import (
	"context"
	"crypto/rand"
	"errors"
	"hash"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const (
	clocks     = 10 * time.Minute // the time in a ring may be this far off
	maxStreams = 20000            // remembered pairs of a sender and a queue

	// mostAnswers is how many publications a listener answers at the same time. It drops others, and they are repeated.
	mostAnswers = 64
)

// An intake receives the datagrams of a socket.
type intake struct {
	bells  *bells
	desk   *pubsub.Desk
	ctx    context.Context // until Close
	all    *sync.WaitGroup // of the store's goroutines
	counts *counts

	conn  *net.UDPConn
	key   []byte
	slots chan struct{} // full while too many publications are being answered
}

// open opens the socket.
func (i *intake) open(listen string) error {
	packets, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	i.conn = packets.(*net.UDPConn) // the network udp returns this type
	i.key, i.slots = make([]byte, keySize), make(chan struct{}, mostAnswers)
	rand.Read(i.key)
	return nil
}

// at is the address of the socket.
func (i *intake) at() netip.AddrPort { return i.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// receive receives datagrams until the socket is closed.
func (i *intake) receive() {
	filter := newRingFilter(i.key)
	var b budget
	buf := make([]byte, maxPublication+1) // one byte more than the longest, to notice a longer datagram
	for {
		n, from, err := i.conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			x, v := filter.judgeDatagram(buf[:n], time.Now())
			switch v {
			case fresh:
				if x.request != nil {
					i.answer(from, *x.request)
				} else if i.bells.ringForOther(x.queue) {
					i.counts.accepted.Add(1)
				}
				continue
			case repeated:
				i.counts.repeated.Add(1)
			case refused:
				i.counts.refused.Add(1)
			}
		}
		if !b.pay(i.ctx, i.bells.now()) {
			return
		}
	}
}

// answer answers a publication, unless too many are being answered.
func (i *intake) answer(from netip.AddrPort, r pubsub.Request) {
	select {
	case i.slots <- struct{}{}:
	default:
		return
	}
	i.all.Go(func() {
		defer func() { <-i.slots }()
		if n, ok := i.desk.Answer(i.ctx, r); ok {
			_, _ = i.conn.WriteToUDPAddrPort(appendAnswer(nil, newMAC(i.key), r.ID, n), from)
		}
	})
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
