package doorbell

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"hash"
	"log/slog"
	"maps"
	random "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	clocks     = 10 * time.Minute       // the time in a ring may be this far off
	maxStreams = 20000                  // remembered pairs of a sender and a queue
	slice      = 100 * time.Millisecond // the period for which worthless counts
	worthless  = 1000
	leftAlone  = time.Hour // an invalid row is removed after this time

	withdrawTime = 2 * time.Second // the longest time that Close spends on removing the row
)

// listen receives rings and keeps the row until the store is closed. If it can't, consumers poll.
func (s *store) listen() {
	packets, err := net.ListenPacket("udp", s.cfg.Listen)
	if err != nil {
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't listen for rings; idle workers find messages by polling", slog.Any("error", err))
		return
	}
	conn := packets.(*net.UDPConn) // the network udp returns this type
	key := make([]byte, keySize)
	rand.Read(key)
	s.all.Go(func() {
		defer conn.Close() // ends receiveRings
		s.publish(key, conn.LocalAddr().(*net.UDPAddr).AddrPort())
	})
	s.receiveRings(conn, key)
}

// receiveRings receives rings until the socket is closed.
func (s *store) receiveRings(conn *net.UDPConn, key []byte) {
	filter := newRingFilter(key)
	var b budget
	buf := make([]byte, maxRing+1) // one byte more than a ring, to notice a longer datagram
	for {
		n, _, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			queue, v := filter.judgeDatagram(buf[:n], time.Now())
			switch v {
			case fresh:
				if s.bells.ringForOther(queue) {
					s.counts.accepted.Add(1)
				}
				continue
			case repeated:
				s.counts.repeated.Add(1)
			case refused:
				s.counts.refused.Add(1)
			}
		}
		if wait := b.spend(s.bells.now()); wait > 0 {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(wait):
			}
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

// A ringFilter tells rings from other datagrams.
type ringFilter struct {
	mac      hash.Hash
	lastSeen map[streamKey]int64 // the time of each stream's last ring
}

// A streamKey names a sender's rings of one queue. Rings of other queues may overtake them.
type streamKey struct {
	sender uint64
	queue  string
}

func newRingFilter(key []byte) *ringFilter {
	return &ringFilter{mac: newMAC(key), lastSeen: map[streamKey]int64{}}
}

// judgeDatagram judges a datagram. A ring is fresh only once, and only if its sender's last ring of the queue was
// earlier. So a replay has no effect, and clocks need not agree well. A stream is forgotten when its last ring is
// too old to be accepted again.
func (f *ringFilter) judgeDatagram(b []byte, now time.Time) (queue string, v verdict) {
	r, ok := readRing(b, f.mac)
	oldest := now.Add(-clocks).UnixMicro()
	if !ok || r.at < oldest || r.at > now.Add(clocks).UnixMicro() {
		return "", refused
	}
	stream := streamKey{r.sender, r.queue}
	last, known := f.lastSeen[stream]
	if known && r.at <= last {
		return "", repeated
	}
	if !known && len(f.lastSeen) >= maxStreams {
		maps.DeleteFunc(f.lastSeen, func(_ streamKey, at int64) bool { return at < oldest })
		if len(f.lastSeen) >= maxStreams {
			return "", refused
		}
	}
	f.lastSeen[stream] = r.at
	return r.queue, fresh
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

// rowMayBeGone makes publish write the row again after a sign that the row is gone. It makes no request itself.
func (s *store) rowMayBeGone() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// publish keeps the row until the store is closed. It writes the row soon after a queue is added or after a sign
// that the row is gone, and renews it.
func (s *store) publish(key []byte, at netip.AddrPort) {
	var written []string    // the queues in the row
	var tried time.Duration // when the last write began
	failing, tidied := false, false
	timer := time.NewTimer(s.pace.renew)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		case <-s.gone:
			if wait := tried + s.pace.retry - s.bells.now(); wait > 0 {
				timer.Reset(wait)
				continue
			}
		case <-s.more:
			if isSubset(s.bells.watched(), written) {
				continue
			}
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(s.pace.settle):
			}
		}
		next := s.pace.renew*9/10 + random.N(s.pace.renew/5)
		queues := s.bells.watched()
		tried = s.bells.now()
		err := s.write(queues, key, at)
		if err != nil {
			written, next = nil, s.pace.retry
			if !failing && s.ctx.Err() == nil {
				s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't write this process's row, so others don't ring it; idle workers find messages by polling", slog.Any("error", err))
			}
		} else {
			written = queues
			if !tidied && len(queues) > 0 {
				s.cfg.Logger.LogAttrs(s.ctx, slog.LevelInfo, "doorbell: listening for rings", slog.Any("addresses", s.addresses(at)))
				s.tidy()
				tidied = true
			}
		}
		failing = err != nil
		timer.Reset(next)
	}
}

func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// write writes the row, or removes it when no consumer waits for a queue.
func (s *store) write(queues []string, key []byte, at netip.AddrPort) error {
	if len(queues) == 0 {
		return s.withdraw(s.ctx)
	}
	r := row{Version: version, Queues: queues, Key: key, Until: time.Now().Add(s.pace.valid).Unix()}
	for _, a := range s.addresses(at) {
		r.Addresses = append(r.Addresses, a.String())
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.published = true // also after a failure: the row may have been written
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	_, err = s.table.Put(ctx, partition, s.id, data, storage.Condition{})
	return err
}

// withdraw removes the row, if there may be one.
func (s *store) withdraw(ctx context.Context) error {
	s.mu.Lock()
	published := s.published
	s.published = false
	s.mu.Unlock()
	if !published {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	err := s.table.Delete(ctx, partition, s.id, storage.Condition{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// tidy removes the rows of crashed processes. If it fails, the next process to start removes them.
func (s *store) tidy() {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	list, _, err := s.rows(ctx)
	if err != nil {
		return
	}
	for _, l := range list {
		if time.Since(l.until()) > leftAlone {
			if s.table.Delete(ctx, partition, l.id, storage.Condition{IfMatch: l.etag}) != nil {
				return
			}
		}
	}
}

// addresses returns the addresses by which others reach a socket that is bound to at.
func (s *store) addresses(at netip.AddrPort) []netip.AddrPort {
	var list []netip.AddrPort
	add := func(text string) {
		if a, ok := parseAddress(text, at.Port()); ok && len(list) < maxAddresses && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, text := range s.cfg.Advertise {
		add(text)
	}
	if len(list) > 0 {
		return list
	}
	if ip := at.Addr().Unmap(); !ip.IsUnspecified() {
		return []netip.AddrPort{netip.AddrPortFrom(ip, at.Port())}
	}
	for _, ip := range outward() {
		add(ip.String())
	}
	if len(list) == 0 {
		add("127.0.0.1") // a machine without a network
	}
	return list
}

// outward lists this machine's global unicast addresses, version 4 first.
func outward() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var list []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			list = append(list, p.Addr())
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return list
}
