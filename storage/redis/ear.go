package redis

import (
	"context"
	"log/slog"
	"maps"
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

	wants    sync.Mutex     // held while a subscription ends, which may wait for the connection
	conn     client.Ear     // nil while it is lost
	channels map[string]int // how many want each

	mu      sync.Mutex               // never held while something waits
	asked   map[pubsub.ID]chan<- int // publications that wait for an answer
	ringing map[string]struct{}      // topics to ring
	rung    chan struct{}            // capacity 1: ringing isn't empty
}

func newEar(s *store, log *slog.Logger) *ear {
	e := &ear{s: s, log: log, desk: &pubsub.Desk{Receivers: s.receivers}, channels: map[string]int{}, asked: map[pubsub.ID]chan<- int{}, ringing: map[string]struct{}{}, rung: make(chan struct{}, 1)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.channels[s.e.Key(processChannel+s.e.Process())] = 1
	return e
}

// begin opens the connection.
func (e *ear) begin(ctx context.Context) error {
	conn, err := e.open(ctx)
	if err != nil {
		return explainDial(err)
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
	e.wants.Lock()
	e.conn = conn
	all := slices.Sorted(maps.Keys(e.channels))
	e.wants.Unlock()
	if err := conn.Subscribe(ctx, all...); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

const (
	firstPause, longestPause = 20 * time.Millisecond, 2 * time.Second

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
		e.wants.Lock()
		e.conn = nil
		e.wants.Unlock()
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

// reopen returns a new connection, or nil when the store is closed.
func (e *ear) reopen() client.Ear {
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
	}
}

// want subscribes to a channel, and returns when the server has confirmed that. The channel is unsubscribed once
// nobody wants it.
func (e *ear) want(ctx context.Context, channel string) error {
	e.wants.Lock()
	e.channels[channel]++
	conn := e.conn
	e.wants.Unlock()
	if conn == nil {
		return errAway
	}
	return conn.Subscribe(ctx, channel)
}

func (e *ear) leave(channel string) {
	e.wants.Lock()
	defer e.wants.Unlock()
	e.channels[channel]--
	if e.channels[channel] > 0 {
		return
	}
	delete(e.channels, channel)
	if e.conn != nil {
		e.conn.Unsubscribe(channel) // before anybody wants the channel again
	}
}

// away reports that the connection is lost.
func (e *ear) away() bool {
	e.wants.Lock()
	defer e.wants.Unlock()
	return e.conn == nil
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

// ring publishes rings. While one is on its way others are folded.
func (e *ear) ring() {
	for {
		select {
		case <-e.rung:
		case <-e.ctx.Done():
			return
		}
		e.mu.Lock()
		topics := slices.Sorted(maps.Keys(e.ringing))
		clear(e.ringing)
		e.mu.Unlock()
		for _, topic := range topics {
			if _, err := e.s.conn.Publish(e.ctx, e.s.e.Key(ringChannel+topic), ""); err != nil {
				e.s.rings.At(topic, time.Time{}) // here at least
			}
		}
	}
}
