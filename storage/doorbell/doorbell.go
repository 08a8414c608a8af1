package doorbell

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

// Config is how a process rings and is rung. The zero Config is right for most programs.
type Config struct {
	// Listen is where this process is rung: a UDP "IP:port", in which either part may be missing. The socket opens
	// when the process first waits for a queue; a process that only sends never listens. Defaults to ":0", any free
	// port of all addresses.
	Listen string

	// Advertise lists the addresses by which others reach Listen, at most 8: IPs, with a port where it differs from
	// Listen's. Defaults to the IP of Listen, or else to all global unicast addresses of this machine.
	Advertise []string

	// Logger gets the package's log records. Defaults to none.
	Logger *slog.Logger
}

// A Doorbell is a store that rings.
type Doorbell struct {
	*storage.Store
	own *store // nil: the store rings by itself
}

// Counts counts the rings between processes since the store was opened. Of publications it counts those that came again
// or were refused.
type Counts struct {
	Sent     int64 // rings sent; a ring to several addresses of one listener counts once
	Accepted int64 // rings received, which ring at once or are folded into the next
	Repeated int64 // rings received before, or after a later one; also the copies to a listener's other addresses
	Refused  int64 // datagrams that are no ring and no publication, or forged, or whose time is off by more than 10 minutes
}

// pace holds the intervals of the store's work; tests have shorter ones.
type pace struct {
	settle    time.Duration // how long a change of the queues waits for others before it is published
	renew     time.Duration // how often a row is written
	valid     time.Duration // how long a row is valid
	retry     time.Duration // when a failed write is repeated, and the least time from a write to the next one after a sign
	readEvery time.Duration // how often a busy sender reads the rows
	readSoon  time.Duration // likewise when it knows no listener of a queue
}

// trust is how long a row that isn't written again is believed.
func (p pace) trust() time.Duration { return p.renew * 3 / 2 }

func usualPace() pace {
	return pace{settle: 50 * time.Millisecond, renew: 4 * time.Minute, valid: 10 * time.Minute, retry: 30 * time.Second, readEvery: time.Minute, readSoon: 10 * time.Second}
}

// Over returns a store that keeps all data in inner, and rings. If inner rings by itself, it stays as it is, and
// the counts of the Doorbell stay zero. Closing the result closes inner. Over opens nothing and makes no request.
// An error is about cfg only, and inner stays open.
func Over(inner *storage.Store, cfg Config) (*Doorbell, error) {
	return over(inner, cfg, usualPace())
}

func over(inner *storage.Store, cfg Config, p pace) (*Doorbell, error) {
	if inner.Rings() {
		return &Doorbell{Store: inner}, nil
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, &storage.Error{Op: "open", Resource: "doorbell", Err: err}
	}
	var sender [8]byte
	rand.Read(sender[:])
	s := &store{
		Store:      inner.Driver(),
		table:      inner.Table(tableName),
		cfg:        cfg,
		pace:       p,
		id:         rand.Text(),
		sender:     binary.BigEndian.Uint64(sender[:]),
		bells:      newBells(),
		wall:       func() time.Time { return time.Now().Round(0) },
		receivers:  &pubsub.Receivers{Logger: cfg.Logger},
		more:       make(chan struct{}, 1),
		gone:       make(chan struct{}, 1),
		subscribes: make(chan chan<- error),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.all.Go(func() {
		s.bells.run(s.ctx, s.ringListeners)
	})
	return &Doorbell{storage.New(s), s}, nil
}

// Counts returns how often this process rang others and was rung.
func (d *Doorbell) Counts() Counts {
	if d.own == nil {
		return Counts{}
	}
	c := &d.own.counts
	return Counts{Sent: c.sent.Load(), Accepted: c.accepted.Load(), Repeated: c.repeated.Load(), Refused: c.refused.Load()}
}

// Check reports all that is wrong with the Config. [Over] does the same, if the store doesn't ring by itself.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	if c.Listen == "" {
		c.Listen = ":0"
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil && host != "" {
		_, err = netip.ParseAddr(host)
	}
	if err == nil && port != "" {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		bad("Listen is %s; want a UDP address like :7040 or 10.0.0.4:7040", storage.Quote(c.Listen))
	}
	if len(c.Advertise) > maxAddresses {
		bad("Advertise has %d addresses; at most %d", len(c.Advertise), maxAddresses)
	}
	for _, a := range c.Advertise {
		if _, ok := parseAddress(a, 1); !ok {
			bad("Advertise has %s; want an address of this machine, with or without a port, like 10.0.0.4 or 10.0.0.4:7040", storage.Quote(a))
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(faults...)
}

// store implements driver.Store and driver.Listener over a store without a Listener.
type store struct {
	driver.Store
	table      *storage.Table // in the inner store, with the listeners' rows
	cfg        Config
	pace       pace
	id         string // names this process's row
	sender     uint64 // names this process in its rings
	bells      *bells
	wall       func() time.Time // without a monotonic reading
	receivers  *pubsub.Receivers
	others     others
	more       chan struct{}     // of capacity 1: a consumer waits for a queue that isn't in the row yet
	gone       chan struct{}     // of capacity 1: there is a sign that the row is gone
	subscribes chan chan<- error // calls of Subscribe that wait for the row
	asks       asks
	counts     struct{ sent, accepted, repeated, refused atomic.Int64 }

	ctx  context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup
	once sync.Once

	mu        sync.Mutex
	listening bool
	deaf      bool // the socket can't be opened
	closed    bool
	published bool          // this process may have a row
	rowSince  time.Duration // since when it certainly has one, by bells.now; 0: it may have none
}

func (s *store) Queue(name string) driver.Queue {
	return &queue{Queue: s.Store.Queue(name), name: name, bells: s.bells, most: s.Props().MaxReceive, rowMayBeGone: s.rowMayBeGone}
}

// Committer implements driver.Store: if the inner store commits atomically, messages sent by a commit ring, too.
func (s *store) Committer() driver.Committer {
	inner := s.Store.Committer()
	if inner == nil {
		return nil
	}
	return &committer{inner, s.bells}
}

// Listener implements driver.Store.
func (s *store) Listener() driver.Listener { return storeListener{s} }

// A storeListener implements driver.Listener.
type storeListener struct{ s *store }

// Ring implements driver.Listener.
func (l storeListener) Ring(topic string) { l.s.bells.ringAll(topic) }

// Listen implements driver.Listener. The first call makes this process a listener.
func (l storeListener) Listen(topic string) driver.Subscription {
	s := l.s
	rings, stop := s.bells.watch(topic)
	sub := &subscription{rings, stop}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sub
	}
	if !s.listening && !s.deaf {
		if err := s.startListening(); err != nil {
			s.deaf = true
			s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't listen for rings; idle workers find messages by polling", slog.Any("error", err))
		}
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	return sub
}

// A subscription implements driver.Subscription.
type subscription struct {
	rings <-chan struct{}
	stop  func()
}

func (x *subscription) Rings() <-chan struct{} { return x.rings }
func (x *subscription) Close()                 { x.stop() }

// Claim implements driver.Subscription. Sends go to the store alone, so no message can be claimed on its way.
func (x *subscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}

// Close sends the waiting rings, removes this process's row and closes the inner store.
func (s *store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.bells.close()
		s.receivers.Close()
		s.end()
		s.all.Wait()
		s.others.close()
		s.asks.close()
		_ = s.withdraw(context.Background()) // the row expires by itself
	})
	return s.Store.Close()
}
