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
	clocks     = 10 * time.Minute       // how far the time of a ring may be off
	maxStreams = 20000                  // senders and queues remembered
	slice      = 100 * time.Millisecond // in each, so many worthless datagrams are looked at
	worthless  = 1000
	leftAlone  = time.Hour // after which a row that is no longer valid is removed

	withdrawTime = 2 * time.Second // how long Close tries to remove the row
)

// listen hears rings and keeps the row until the store is closed. Where it can't, there is polling.
func (s *store) listen() {
	packets, err := net.ListenPacket("udp", s.cfg.Listen)
	if err != nil {
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't be rung; idle workers find messages by polling", slog.Any("error", err))
		return
	}
	conn := packets.(*net.UDPConn) // what the network udp gives
	key := make([]byte, keySize)
	rand.Read(key)
	s.all.Go(func() {
		defer conn.Close() // ends hear
		s.publish(key, conn.LocalAddr().(*net.UDPAddr).AddrPort())
	})
	s.hear(conn, key)
}

// hear takes rings until the socket is closed.
func (s *store) hear(conn *net.UDPConn, key []byte) {
	filter := newRingFilter(key)
	var b budget
	buf := make([]byte, maxRing+1) // so that one that is too long is seen to be
	for {
		n, _, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			queue, v := filter.judgeDatagram(buf[:n], time.Now())
			switch v {
			case fresh:
				if s.bells.hear(queue) {
					s.counts.heard.Add(1)
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

// A verdict is what a datagram was found to be.
type verdict int

const (
	fresh verdict = iota
	repeated
	refused
)

// A ringFilter tells rings from anything else.
type ringFilter struct {
	mac      hash.Hash
	lastSeen map[streamKey]int64 // the time of the last ring of each
}

// A streamKey names a sender's rings of one queue. Rings of other queues may overtake them.
type streamKey struct {
	sender uint64
	queue  string
}

func newRingFilter(key []byte) *ringFilter {
	return &ringFilter{mac: newMAC(key), lastSeen: map[streamKey]int64{}}
}

// judgeDatagram tells what a datagram is. Each ring is fresh once, and only if no later one of its sender about its queue
// was heard: so a replay is worth nothing, and clocks need not agree well. A stream is forgotten when its last ring is too
// old anyway.
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

// A budget bounds the work for worthless datagrams: what is too much waits in the socket's buffer or is lost there.
type budget struct {
	end  time.Duration // of the present slice
	left int
}

// spend counts one and returns how long to look at no other.
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

// doubt has the row written again because of a sign that it is gone. It makes no request itself.
func (s *store) doubt() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// publish keeps the row: written soon after a queue is added or after a sign that it is gone, and renewed, until the store
// is closed.
func (s *store) publish(key []byte, at netip.AddrPort) {
	var written []string    // the queues in the row
	var tried time.Duration // when it was written last, or was to be
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
				s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't publish where to ring; idle workers find messages by polling", slog.Any("error", err))
			}
		} else {
			written = queues
			if !tidied && len(queues) > 0 {
				s.cfg.Logger.LogAttrs(s.ctx, slog.LevelInfo, "doorbell: others can ring", slog.Any("addresses", s.addresses(at)))
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

// write writes the row, or removes it where there is nothing to be rung for.
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
	s.published = true // also when it fails: it may have
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

// tidy removes rows that crashed processes have left. If it fails, the next process to start does it.
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

// addresses are those that a socket bound to at can be reached by.
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

// outward lists this machine's addresses that lead out of it, those of version 4 first.
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
