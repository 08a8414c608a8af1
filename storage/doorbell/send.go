package doorbell

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const lastRead = time.Second // the time left for a read when the store is closed

// A sender rings the listeners in other processes that this process knows.
type sender struct {
	dir    *directory
	log    *slog.Logger
	ctx    context.Context // until Close
	all    *sync.WaitGroup // of the store's goroutines
	counts *counts
	name   uint64 // names this process in its rings

	mu       sync.Mutex
	list     []listener
	begun    bool           // a read has begun
	began    time.Duration  // when the last read began
	reading  bool           // a read is under way
	asked    map[string]int // while reading: the queues rung meanwhile, with the number of listeners to ring
	failing  bool           // the last read failed
	stamp    int64          // the time in the last ring
	conn     *net.UDPConn   // nil until needed
	noSocket bool           // the socket can't be opened
}

// fanout is how many processes that wait for a queue are rung at a time, including this one. With one, a listener that
// has crashed, can't be reached or is busy would delay a message. With many, each ring may cost an empty Receive.
const fanout = 2

// ringListeners rings known listeners of a queue: all of them, or as many as make up the fanout together with this
// process. When a read of the table is due, it starts one in the background, which then rings new listeners, too.
func (s *sender) ringListeners(x due) {
	n := fanout - x.local
	if x.everyone {
		n = mostRows
	}
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.dir.pace.readEvery
	if s.ring(x.queue, n, nil) == 0 && x.local == 0 {
		every = s.dir.pace.readSoon
	}
	now := s.dir.clock.now()
	if !s.reading && (!s.begun || now-s.began >= every) {
		s.begun, s.began, s.reading, s.asked = true, now, true, map[string]int{}
		s.all.Go(s.readListeners)
	}
	if s.reading {
		s.asked[x.queue] = max(s.asked[x.queue], n)
	}
}

// readListeners reads the rows, and rings new listeners of the queues that were rung meanwhile. It also checks whether
// this process's row still exists.
func (s *sender) readListeners() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(lastRead, cancel) })()
	list, began, err := s.dir.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err != nil {
		if !s.failing && s.ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "doorbell: can't read the table of listeners, so new ones are not rung; idle workers find messages by polling", slog.Any("error", err))
		}
		s.failing = true
		return
	}
	s.failing = false
	known := s.list
	s.list = judge(list, known, began, time.Now(), s.dir.pace)
	for queue, n := range s.asked {
		s.ring(queue, n, known)
	}
}

// ring rings up to n listeners of a queue that are not among the known ones, and returns how many it could choose
// from. It chooses at random, so that no listener gets all the work. mu is held.
func (s *sender) ring(queue string, n int, known []listener) int {
	var choice []listener
	for _, l := range s.list {
		if l.listensTo(queue) && !slices.ContainsFunc(known, func(k listener) bool { return k.id == l.id && k.listensTo(queue) }) {
			choice = append(choice, l)
		}
	}
	if len(choice) == 0 || !s.open() {
		return len(choice)
	}
	rand.Shuffle(len(choice), func(i, j int) { choice[i], choice[j] = choice[j], choice[i] })
	for _, l := range choice[:min(n, len(choice))] {
		if s.post(l, 0, ring{queue: queue}) {
			s.counts.sent.Add(1)
		}
	}
	return len(choice)
}

// post sends a datagram to all addresses of a listener, beginning with the one at first. It reports whether any could
// be sent to. mu is held, and the socket is open.
func (s *sender) post(l listener, first int, r ring) (sent bool) {
	s.stamp = max(s.stamp+1, time.Now().UnixMicro())
	r.sender, r.at = s.name, s.stamp
	b := appendRing(nil, newMAC(l.Key), r)
	for i := range l.addresses {
		_, err := s.conn.WriteToUDPAddrPort(b, l.addresses[(first+i)%len(l.addresses)]) // one may be unreachable from here
		sent = sent || err == nil
	}
	return sent
}

// open opens the socket for sending, once; mu is held.
func (s *sender) open() bool {
	if s.conn == nil && !s.noSocket {
		conn, err := net.ListenUDP("udp", nil)
		if err != nil {
			s.noSocket = true
			s.log.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't open a socket to send rings; idle workers find messages by polling", slog.Any("error", err))
			return false
		}
		s.conn = conn
	}
	return s.conn != nil
}

// find returns those of rows, read at a time, that subscribe to a topic and are probably alive. It reports whether they
// can be reached.
func (s *sender) find(rows []listener, began time.Duration, topic string) (list []listener, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range judge(rows, s.list, began, time.Now(), s.dir.pace) {
		if l.subscribes(topic) {
			list = append(list, l)
		}
	}
	return list, len(list) == 0 || s.open()
}

// request sends a publication to a listener; see post. The socket is open.
func (s *sender) request(l listener, first int, r *pubsub.Request) (sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.post(l, first, ring{request: r})
}

// close closes the socket.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noSocket = true
	if s.conn != nil {
		s.conn.Close()
	}
}
