package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// A registration implements driver.Registration.
type registration struct {
	*pubsub.Registration
	once  sync.Once
	leave func()
}

// Close implements driver.Registration.
func (r *registration) Close() {
	r.once.Do(func() {
		r.Registration.Close()
		r.leave()
	})
}

// Subscribe implements driver.Listener. The receiver is there before the channel is, so that the loss of the connection
// is told to it.
func (l listener) Subscribe(ctx context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	h, err := l.s.receivers.Subscribe(topic, receiver)
	if err != nil {
		return nil, err
	}
	e := l.s.ear
	if e == nil {
		return h, nil
	}
	channel := e.s.e.Key(topicChannel + topic + ":" + e.s.e.Process())
	r := &registration{Registration: h, leave: func() { e.leave(channel) }}
	if err := e.want(ctx, channel); err != nil {
		r.Close()
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return r, nil
}

// Publish implements driver.Listener.
func (l listener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	if l.s.ear == nil {
		return pubsub.Publish(ctx, l.s.receivers, nil, topic, data, one)
	}
	return pubsub.Publish(ctx, l.s.receivers, l.s.ear, topic, data, one)
}

// Peers implements pubsub.Transport.
func (e *ear) Peers(ctx context.Context, topic string) ([]pubsub.Peer, func(), error) {
	channels := e.s.e.Key(topicChannel + topic + ":")
	r, err := e.s.conn.Do(ctx, "PUBSUB", "CHANNELS", channels+"*")
	if err != nil {
		return nil, func() {}, fmt.Errorf("%w: can't list who listens: %w", driver.ErrUnavailable, err)
	}
	var peers []pubsub.Peer
	list := r.List()
	for i := range list {
		if process := strings.TrimPrefix(list.At(i).Text(), channels); process != e.s.e.Process() {
			peers = append(peers, peer{e, list.At(i).Text()})
		}
	}
	return peers, func() {}, nil
}

// A peer implements pubsub.Peer: a process that listens to a topic.
type peer struct {
	e       *ear
	channel string
}

// Call implements pubsub.Peer. The message is the name of this process, to which the answer goes, and the request.
func (p peer) Call(ctx context.Context, r pubsub.Request) (int, error) {
	answer := make(chan int, 1)
	p.e.mu.Lock()
	p.e.asked[r.ID] = answer
	p.e.mu.Unlock()
	defer func() {
		p.e.mu.Lock()
		delete(p.e.asked, r.ID)
		p.e.mu.Unlock()
	}()
	n, err := p.e.s.conn.Publish(ctx, p.channel, p.e.s.e.Process()+string(r.Append(nil)))
	switch {
	case err == nil && n == 0, client.NotSent(err):
		return 0, pubsub.ErrGone
	case err != nil:
		return 0, err
	}
	select {
	case n := <-answer:
		return n, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

const processName = 8

// answer answers a request of another process.
func (e *ear) answer(data string) {
	if len(data) < processName {
		return
	}
	r, ok := pubsub.ReadRequest([]byte(data[processName:]))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, pubsub.GiveLimit)
	defer cancel()
	if n, ok := e.desk.Answer(ctx, r); ok {
		// A lost answer is for the publisher to judge.
		_, _ = e.s.conn.Publish(e.ctx, e.s.e.Key(processChannel+data[:processName]), string(pubsub.AppendAnswer(nil, r.ID, n)))
	}
}

// answered takes the answer to a request of this process.
func (e *ear) answered(data string) {
	id, n, ok := pubsub.ReadAnswer([]byte(data))
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.asked[id]; c != nil {
		delete(e.asked, id)
		c <- n
	}
}
