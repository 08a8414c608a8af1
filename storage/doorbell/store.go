package doorbell

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

// store implements driver.Store and driver.Listener over a store without a Listener.
type store struct {
	driver.Store
	cfg       Config
	bells     *bells
	receivers *pubsub.Receivers
	dir       *directory
	row       *publisher
	send      *sender
	asks      *asks
	counts    *counts

	ctx  context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup
	once sync.Once

	mu        sync.Mutex
	listening bool
	deaf      bool // the socket can't be opened
	closed    bool
}

func newStore(inner *storage.Store, cfg Config, p pace) *store {
	var name [8]byte
	rand.Read(name[:])
	start := clock{time.Now()}
	s := &store{
		Store:     inner.Driver(),
		cfg:       cfg,
		bells:     newBells(start),
		receivers: &pubsub.Receivers{Logger: cfg.Logger},
		counts:    &counts{},
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.dir = &directory{
		table: inner.Table(tableName), id: rand.Text(), pace: p, clock: start, receivers: s.receivers, gone: make(chan struct{}, 1),
		wall: func() time.Time { return time.Now().Round(0) },
	}
	s.row = newPublisher(s.ctx, s.dir, s.bells, cfg)
	s.send = &sender{dir: s.dir, log: cfg.Logger, ctx: s.ctx, all: &s.all, counts: s.counts, name: binary.BigEndian.Uint64(name[:])}
	s.asks = &asks{clock: start, send: s.send}
	s.all.Go(func() { s.bells.run(s.ctx, s.send.ringListeners) })
	return s
}

func (s *store) Queue(name string) driver.Queue {
	return &queue{Queue: s.Store.Queue(name), name: name, bells: s.bells, most: s.Props().MaxReceive, rowMayBeGone: s.dir.rowMayBeGone}
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
	s.row.wantMore()
	return sub
}

// startListening opens the socket, and begins to receive and to keep the row, until the store is closed. s.mu is held.
func (s *store) startListening() error {
	in := &intake{bells: s.bells, desk: &pubsub.Desk{Receivers: s.receivers}, ctx: s.ctx, all: &s.all, counts: s.counts}
	if err := in.open(s.cfg.Listen); err != nil {
		return err
	}
	s.listening = true
	s.all.Go(func() {
		defer in.conn.Close() // ends receive
		s.row.run(in.key, in.at())
	})
	s.all.Go(in.receive)
	return nil
}

// Subscribe implements driver.Listener. It returns when the topic is in this process's row, where others find it.
func (l storeListener) Subscribe(ctx context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	h, err := l.s.receivers.Subscribe(topic, receiver)
	if err != nil {
		return nil, err
	}
	if err := l.enterRow(ctx); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// enterRow returns when all topics of this store's receivers are in the row.
func (l storeListener) enterRow(ctx context.Context) error {
	s := l.s
	s.mu.Lock()
	var err error
	if !s.listening && !s.closed {
		err = s.startListening()
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: can't listen for what is published: %w", driver.ErrUnavailable, err)
	}
	return s.row.enter(ctx)
}

// Publish implements driver.Listener.
func (l storeListener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	return pubsub.Publish(ctx, l.s.receivers, l.s.asks, topic, data, one)
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
		s.send.close()
		s.asks.close()
		_ = s.dir.withdraw(context.Background()) // the row expires by itself
	})
	return s.Store.Close()
}
