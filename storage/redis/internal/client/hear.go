package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// ear implements Ear.
type ear struct {
	c      rueidis.DedicatedClient
	cancel func()
	lost   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	waiting map[string][]chan struct{} // by channel: closed when the server has confirmed it
}

var errLost = errors.New("redis: the connection for subscriptions was lost")

// Hear implements Conn.
func (c *conn) Hear(ctx context.Context, message func(channel, data string)) (Ear, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	d, cancel := c.c.Dedicate()
	e := &ear{c: d, cancel: cancel, lost: make(chan struct{}), waiting: map[string][]chan struct{}{}}
	over := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { message(m.Channel, m.Message) },
		OnSubscription: e.confirm,
	})
	go func() {
		<-over
		e.Close()
	}()
	if err := d.Do(ctx, d.B().Ping().Build()).Error(); err != nil {
		e.Close()
		return nil, translate(ctx, err)
	}
	return e, nil
}

func (e *ear) confirm(s rueidis.PubSubSubscription) {
	if s.Kind != "subscribe" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.waiting[s.Channel] {
		close(c)
	}
	delete(e.waiting, s.Channel)
}

// Subscribe implements Ear.
func (e *ear) Subscribe(ctx context.Context, channels ...string) error {
	confirmed := make([]chan struct{}, len(channels))
	e.mu.Lock()
	for i, name := range channels {
		confirmed[i] = make(chan struct{})
		e.waiting[name] = append(e.waiting[name], confirmed[i])
	}
	e.mu.Unlock()
	defer e.forget(channels, confirmed)
	if err := e.c.Do(ctx, e.c.B().Subscribe().Channel(channels...).Build()).Error(); err != nil {
		return translate(ctx, err)
	}
	for _, c := range confirmed {
		select {
		case <-c:
		case <-e.lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// forget removes waits that nobody has any more, so that what comes for them late ends no other wait.
func (e *ear) forget(channels []string, waits []chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, name := range channels {
		rest := slices.DeleteFunc(e.waiting[name], func(c chan struct{}) bool { return c == waits[i] })
		if e.waiting[name] = rest; len(rest) == 0 {
			delete(e.waiting, name)
		}
	}
}

// Unsubscribe implements Ear.
func (e *ear) Unsubscribe(channels ...string) {
	// An error means that the connection is lost, which Lost tells.
	_ = e.c.Do(context.Background(), e.c.B().Unsubscribe().Channel(channels...).Build()).Error()
}

// Lost implements Ear.
func (e *ear) Lost() <-chan struct{} { return e.lost }

// Close implements Ear.
func (e *ear) Close() {
	e.once.Do(func() {
		close(e.lost)
		e.c.Close()
		e.cancel()
	})
}
