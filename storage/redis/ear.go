package redis

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// Channels of a store:
//
//	PREFIX:l:TOPIC          rings; the data is empty, or in how many microseconds a message becomes ready
//	PREFIX:t:TOPIC:PROCESS  publications for the receivers of one process
//	PREFIX:p:PROCESS        answers to a process. A channel without subscribers tells that the process is dead
const (
	ringChannel    = ":l:"
	topicChannel   = ":t:"
	processChannel = ":p:"
)

// ear is the store's connection for subscriptions. It is opened again when it is lost.
type ear struct {
	s    *store
	log  *slog.Logger
	desk *pubsub.Desk

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	over   sync.WaitGroup

	// turn is held while the server is told of channels, so that a subscription and the end of an earlier one to the
	// same channel arrive in order. It has capacity 1.
	turn chan struct{}

	// mu is never held during a call, because whoever brings the answer needs mu for the messages before it.
	mu       sync.Mutex
	conn     client.Ear               // nil while it is lost
	opened   time.Time                // when conn was, or zero if others may be judged at once
	channels map[string]int           // how many want each
	asked    map[pubsub.ID]chan<- int // publications that wait for an answer
	ringing  map[string]struct{}      // topics to ring
	rung     chan struct{}            // capacity 1: ringing isn't empty
}

func newEar(s *store, log *slog.Logger) *ear {
	e := &ear{s: s, log: log, desk: &pubsub.Desk{Receivers: s.receivers}, channels: map[string]int{}, asked: map[pubsub.ID]chan<- int{}, ringing: map[string]struct{}{}, rung: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.channels[s.e.Key(processChannel+s.e.Process())] = 1
	return e
}

// begin opens the connection. On a server that was started or promoted lately others may be about to come back.
func (e *ear) begin(ctx context.Context, lately bool) error {
	conn, err := e.open(ctx)
	if err != nil {
		return explainDial(ctx, e.s.cfg, err)
	}
	if !lately {
		e.mu.Lock()
		e.opened = time.Time{}
		e.mu.Unlock()
	}
	e.over.Go(func() { e.keep(conn) })
	e.over.Go(e.ring)
	return nil
}

func (e *ear) close() {
	e.cancel()
	e.over.Wait()
}

// open opens a connection and subscribes to all channels.
func (e *ear) open(ctx context.Context) (client.Ear, error) {
	conn, err := e.s.conn.Hear(ctx, e.message)
	if err != nil {
		return nil, err
	}
	if err = e.take(ctx); err == nil {
		e.mu.Lock()
		all := slices.Sorted(maps.Keys(e.channels))
		e.mu.Unlock()
		if err = conn.Subscribe(ctx, all...); err == nil {
			e.mu.Lock()
			e.conn, e.opened = conn, time.Now()
			e.mu.Unlock()
		}
		<-e.turn
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// take takes the turn. The caller gives it back.
func (e *ear) take(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	firstPause, longestPause = 20 * time.Millisecond, 500 * time.Millisecond // well below deadPause

	// openLimit is how long the opening of a connection may take.
	openLimit = 10 * time.Second
)

// keep opens the connection again whenever it is lost. Rings were lost meanwhile, so all consumers look then.
func (e *ear) keep(conn client.Ear) {
	for {
		select {
		case <-conn.Lost():
		case <-e.ctx.Done():
			conn.Close()
			return
		}
		e.mu.Lock()
		e.conn = nil
		e.mu.Unlock()
		e.s.receivers.Lose()
		e.log.Warn("redis: the connection for rings is lost; consumers look every "+pollRings.String()+" until it is back", "store", e.s.cfg.place())
		lost := time.Now()
		if conn = e.reopen(); conn == nil {
			return
		}
		e.log.Info("redis: the connection for rings is back", "store", e.s.cfg.place(), "after", time.Since(lost).Round(time.Millisecond).String())
		e.s.rings.All()
	}
}

// reopen returns a new connection, or nil when the store is closed. It logs why there is none whenever the reason
// changes.
func (e *ear) reopen() client.Ear {
	why := ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		select {
		case <-e.ctx.Done():
			return nil
		case <-time.After(pause):
		}
		ctx, cancel := context.WithTimeout(e.ctx, openLimit)
		conn, err := e.open(ctx)
		cancel()
		if err == nil {
			return conn
		}
		if now := reason(err); now != why && e.ctx.Err() == nil {
			e.log.Warn("redis: the connection for rings can't be opened", "store", e.s.cfg.place(), "error", err)
			why = now
		}
	}
}

// reason is an error's text without the ports of this machine, which differ each time.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// want subscribes to a channel, and returns when the server has confirmed that. The channel is unsubscribed once
// nobody wants it.
func (e *ear) want(ctx context.Context, channel string) error {
	e.mu.Lock()
	e.channels[channel]++
	e.mu.Unlock()
	if err := e.take(ctx); err != nil {
		return err
	}
	defer func() { <-e.turn }()
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	if conn == nil {
		return errAway
	}
	return conn.Subscribe(ctx, channel)
}

// listen is want for a consumer, who stays also after a failure. A server that was too slow to be told of the channel
// is told by the next connection, which subscribes to all.
func (e *ear) listen(ctx context.Context, channel string) {
	err := e.want(ctx, channel)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return // a connection that is lost is opened again by itself, and rings all
	}
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// leave ends what want has begun. It doesn't wait for the server.
func (e *ear) leave(channel string) {
	go func() {
		if e.take(e.ctx) != nil {
			return // the connection ends
		}
		defer func() { <-e.turn }()
		e.mu.Lock()
		e.channels[channel]--
		gone, conn := e.channels[channel] == 0, e.conn
		if gone {
			delete(e.channels, channel)
		}
		e.mu.Unlock()
		if gone && conn != nil {
			conn.Unsubscribe(channel)
		}
	}()
}

// heard returns for how long the connection is there; 0 while it is lost.
func (e *ear) heard() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		return 0
	}
	return time.Since(e.opened)
}

// message handles what comes on a channel. It doesn't block.
func (e *ear) message(channel, data string) {
	name := strings.TrimPrefix(channel, e.s.e.Key(""))
	switch {
	case strings.HasPrefix(name, ringChannel):
		e.rang(strings.TrimPrefix(name, ringChannel), data)
	case strings.HasPrefix(name, topicChannel):
		go e.answer(data)
	case strings.HasPrefix(name, processChannel):
		e.answered(data)
	}
}

func (e *ear) rang(topic, data string) {
	at := time.Time{}
	if n, err := strconv.ParseInt(data, 10, 64); err == nil {
		at = time.Now().Add(time.Duration(n) * time.Microsecond)
	}
	e.s.rings.At(topic, at)
}

// ringSoon rings a topic in all processes. It doesn't wait.
func (e *ear) ringSoon(topic string) {
	e.mu.Lock()
	e.ringing[topic] = struct{}{}
	e.mu.Unlock()
	select {
	case e.rung <- struct{}{}:
	default:
	}
}

// ring publishes rings. While some are on their way others are folded. The last ones are published after close.
func (e *ear) ring() {
	for {
		select {
		case <-e.rung:
			e.ringNow()
		case <-e.ctx.Done():
			e.ringNow()
			return
		}
	}
}

// ringLimit is how long one round of rings may take, and so how long close waits for the last one.
const ringLimit = time.Second

func (e *ear) ringNow() {
	e.mu.Lock()
	topics := slices.Sorted(maps.Keys(e.ringing))
	clear(e.ringing)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), ringLimit)
	defer cancel()
	for _, topic := range topics {
		if _, err := e.s.conn.Publish(ctx, e.s.e.Key(ringChannel+topic), ""); err != nil {
			e.s.rings.At(topic, time.Time{}) // here at least
		}
	}
}
