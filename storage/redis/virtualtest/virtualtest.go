// Package virtualtest opens stores on a real Redis server in a bubble of testing/synctest, where time is virtual.
//
//	outside := virtualtest.New(t, server.URL(redistest.Fresh())) // not in the bubble
//	synctest.Test(t, func(t *testing.T) {
//		s := outside.Open(t)
//		…
//	})
//
// The server knows no virtual time, so the store brings its own to each call (wake=off in the URL). A goroutine of the
// bubble that waits for the server must keep virtual time from going on, and the goroutines of the connection, which
// its first caller starts, must not belong to the bubble. So all calls of the connection are made by goroutines that
// were started before the bubble was. Channels from outside keep a bubble's time still while one of its goroutines
// waits for them.
package virtualtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// callers is how many calls a store may have under way. More wait for their turn.
const callers = 8

// An Outside is a place on a server, as a bubble sees it.
type Outside struct {
	url  string
	idle chan *caller
}

// New prepares a place for one bubble. The URL names no connection for rings: New adds wake=off. It is for goroutines
// outside of any bubble, as [testing.T.Run] calls them.
func New(t *testing.T, url string) *Outside {
	t.Helper()
	o := &Outside{url: url + "&wake=off", idle: make(chan *caller, callers)}
	for range callers {
		c := &caller{work: make(chan func()), done: make(chan struct{})}
		o.idle <- c
		go c.serve()
		t.Cleanup(func() { close(c.work) })
	}
	return o
}

// Open opens the place. Each store has a connection of its own, as a process has. The end of the bubble's test closes
// the store.
func (o *Outside) Open(t *testing.T) *storage.Store {
	t.Helper()
	s, err := redis.Open(client.WithDialer(t.Context(), o.dial), o.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// A caller makes calls outside of the bubble, one after the other.
type caller struct {
	work chan func()
	done chan struct{}
}

func (c *caller) serve() {
	for do := range c.work {
		do()
		c.done <- struct{}{}
	}
}

// call makes a call outside, and waits for its end: no time passes meanwhile. So no deadline ends the call, and the
// call gets no context of the bubble's, whose channels nobody outside may touch.
func (o *Outside) call(do func(ctx context.Context)) {
	c := <-o.idle
	c.work <- func() { do(context.Background()) }
	<-c.done
	o.idle <- c
}

func (o *Outside) dial(_ context.Context, options client.Options) (conn client.Conn, err error) {
	o.call(func(ctx context.Context) { conn, err = client.Dial(ctx, options) })
	if err != nil {
		return nil, err
	}
	return &far{o: o, conn: conn}, nil
}

// far is a connection outside. It implements client.Conn.
type far struct {
	o      *Outside
	conn   client.Conn
	closed atomic.Bool
}

var errNoEar = errors.New("virtualtest: a store in virtual time hears nothing")

// Eval implements client.Conn.
func (f *far) Eval(ctx context.Context, s *client.Script, key string, args func() []string, replicas int) (r client.Reply, err error) {
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	now := args() // the time outside is another one
	f.o.call(func(ctx context.Context) {
		r, err = f.conn.Eval(ctx, s, key, func() []string { return now }, replicas)
	})
	return r, err
}

// Do implements client.Conn.
func (f *far) Do(ctx context.Context, command ...string) (r client.Reply, err error) {
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	f.o.call(func(ctx context.Context) { r, err = f.conn.Do(ctx, command...) })
	return r, err
}

// Look implements client.Conn.
func (f *far) Look(ctx context.Context, hash, field string, command ...string) (value, r client.Reply, err error) {
	if ctx.Err() != nil {
		return value, r, context.Cause(ctx)
	}
	f.o.call(func(ctx context.Context) { value, r, err = f.conn.Look(ctx, hash, field, command...) })
	return value, r, err
}

// Publish implements client.Conn.
func (f *far) Publish(ctx context.Context, channel, data string) (n int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	f.o.call(func(ctx context.Context) { n, err = f.conn.Publish(ctx, channel, data) })
	return n, err
}

// Hear implements client.Conn.
func (f *far) Hear(context.Context, func(channel, data string)) (client.Ear, error) {
	return nil, errNoEar
}

// Close implements client.Conn.
func (f *far) Close() {
	if !f.closed.Swap(true) {
		f.o.call(func(context.Context) { f.conn.Close() })
	}
}
