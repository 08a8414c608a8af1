package doorbell

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	tableName = "doorbells"
	partition = "listeners"
	mostRows  = 1000 // more listeners than this are not rung

	callTimeout = 30 * time.Second // of a request to the table
	lastRead    = time.Second      // the time left for a read when the store is closed
	clockAhead  = 5 * time.Minute  // a listener's clock may be this far ahead of a sender's
)

// others are the listeners in other processes that this process knows.
type others struct {
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

// A listener is a process that can be rung.
type listener struct {
	row
	id      string
	etag    storage.ETag
	changed time.Duration // when this state of its row was first seen
	alive   bool          // it is probably alive
}

func (l *listener) subscribes(topic string) bool {
	return l.alive && slices.Contains(l.Received, topic)
}

func (l *listener) listensTo(queue string) bool { return l.alive && slices.Contains(l.Queues, queue) }

// fanout is how many processes that wait for a queue are rung at a time, including this one. With one, a listener that
// has crashed, can't be reached or is busy would delay a message. With many, each ring may cost an empty Receive.
const fanout = 2

// ringListeners rings known listeners of a queue: all of them, or as many as make up the fanout together with this
// process. When a read of the table is due, it starts one in the background, which then rings new listeners, too.
func (s *store) ringListeners(x due) {
	n := fanout - x.local
	if x.everyone {
		n = mostRows
	}
	if n <= 0 {
		return
	}
	o := &s.others
	o.mu.Lock()
	defer o.mu.Unlock()
	every := s.pace.readEvery
	if s.ring(x.queue, n, nil) == 0 && x.local == 0 {
		every = s.pace.readSoon
	}
	now := s.bells.now()
	if !o.reading && (!o.begun || now-o.began >= every) {
		o.begun, o.began, o.reading, o.asked = true, now, true, map[string]int{}
		s.all.Go(s.readListeners)
	}
	if o.reading {
		o.asked[x.queue] = max(o.asked[x.queue], n)
	}
}

// readListeners reads the rows, and rings new listeners of the queues that were rung meanwhile. It also checks whether
// this process's row still exists.
func (s *store) readListeners() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(lastRead, cancel) })()
	began := s.bells.now()
	list, own, err := s.rows(ctx)
	if err == nil && !own {
		s.missRow(began)
	}
	o := &s.others
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reading = false
	if err != nil {
		if !o.failing && s.ctx.Err() == nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "doorbell: can't read the table of listeners, so new ones are not rung; idle workers find messages by polling", slog.Any("error", err))
		}
		o.failing = true
		return
	}
	o.failing = false
	known := o.list
	o.list = judge(list, known, o.began, time.Now(), s.pace)
	for queue, n := range o.asked {
		s.ring(queue, n, known)
	}
}

// rows returns the other processes' rows. own reports that this process's row is among them, or may be beyond the
// limit.
func (s *store) rows(ctx context.Context) (list []listener, own bool, err error) {
	n := 0
	for r, err := range s.table.Query(ctx, partition, storage.RowRange{Limit: mostRows}) {
		if err != nil {
			return nil, false, err
		}
		n++
		own = own || r.Key == s.id || n == mostRows
		if x, ok := readRow(r.Data); ok && r.Key != s.id {
			list = append(list, listener{row: x, id: r.Key, etag: r.ETag})
		}
	}
	return list, own, nil
}

// judge notes which listeners are probably alive. A row must be valid by this machine's clock. It must also have
// been renewed, whatever the clocks say, if it has been known for longer than a renewal takes.
func judge(list, known []listener, now time.Duration, wall time.Time, p pace) []listener {
	for i := range list {
		l := &list[i]
		l.changed = now
		for _, k := range known {
			if k.id == l.id && k.etag == l.etag {
				l.changed = k.changed
			}
		}
		l.alive = wall.Before(l.until()) && l.until().Before(wall.Add(p.valid+clockAhead)) && now-l.changed < p.trust()
	}
	return list
}

// ring rings up to n listeners of a queue that are not among the known ones, and returns how many it could choose
// from. It chooses at random, so that no listener gets all the work. others.mu is held.
func (s *store) ring(queue string, n int, known []listener) int {
	o := &s.others
	var choice []listener
	for _, l := range o.list {
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
// be sent to. others.mu is held, and the socket is open.
func (s *store) post(l listener, first int, r ring) (sent bool) {
	o := &s.others
	o.stamp = max(o.stamp+1, time.Now().UnixMicro())
	r.sender, r.at = s.sender, o.stamp
	b := appendRing(nil, newMAC(l.Key), r)
	for i := range l.addresses {
		_, err := o.conn.WriteToUDPAddrPort(b, l.addresses[(first+i)%len(l.addresses)]) // one may be unreachable from here
		sent = sent || err == nil
	}
	return sent
}

// open opens the socket for sending, once; others.mu is held.
func (s *store) open() bool {
	o := &s.others
	if o.conn == nil && !o.noSocket {
		conn, err := net.ListenUDP("udp", nil)
		if err != nil {
			o.noSocket = true
			s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't open a socket to send rings; idle workers find messages by polling", slog.Any("error", err))
			return false
		}
		o.conn = conn
	}
	return o.conn != nil
}

// close closes the socket.
func (o *others) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noSocket = true
	if o.conn != nil {
		o.conn.Close()
	}
}
