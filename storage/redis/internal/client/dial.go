package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// conn implements Conn.
type conn struct {
	c      rueidis.Client // one connection that all calls share
	closed atomic.Bool
	apart  apart
}

// A Dialer connects to a server.
type Dialer func(ctx context.Context, o Options) (Conn, error)

type dialerKey struct{}

// WithDialer returns a context in which [Dial] connects by d. A test puts itself between a store and its server so.
func WithDialer(ctx context.Context, d Dialer) context.Context {
	return context.WithValue(ctx, dialerKey{}, d)
}

// Dial connects to a server, and fails if there is none.
func Dial(ctx context.Context, o Options) (Conn, error) {
	if d, ok := ctx.Value(dialerKey{}).(Dialer); ok {
		return d(ctx, o)
	}
	c, err := dial(ctx, options(o))
	if err != nil {
		return nil, translate(ctx, err)
	}
	return &conn{c: c, apart: apart{o: o, turns: make(chan struct{}, mostAside)}}, nil
}

// dial connects. The library takes no context.
func dial(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	type dialed struct {
		c   rueidis.Client
		err error
	}
	done := make(chan dialed, 1)
	go func() {
		c, err := rueidis.NewClient(o)
		done <- dialed{c, err}
	}()
	select {
	case d := <-done:
		return d.c, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				d.c.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func options(o Options) rueidis.ClientOption {
	dialer := net.Dialer{Timeout: dialLimit}
	c := rueidis.ClientOption{
		InitAddress:       o.Addrs,
		TLSConfig:         o.TLS,
		Dialer:            dialer,
		Username:          o.Username,
		Password:          o.Password,
		ClientName:        "millrace",
		SelectDB:          o.DB,
		ConnWriteTimeout:  answerLimit,
		ForceSingleClient: true,
		DisableRetry:      true,
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection: the callers' gathering needs no more
	}
	if o.Socket != "" {
		c.InitAddress = []string{o.Socket}
		c.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if o.Master != "" {
		c.ForceSingleClient = false
		c.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, Dialer: dialer, TLSConfig: o.TLS, Username: o.SentinelUsername, Password: o.SentinelPassword,
			ClientName: "millrace", TopologyRefreshInterval: lookForMaster,
		}
	}
	return c
}

// Eval implements Conn.
func (c *conn) Eval(ctx context.Context, s *Script, key string, args func() []string, replicas int) (Reply, error) {
	r, err := c.eval(ctx, "EVALSHA", s.sha, key, args, replicas)
	if HasCode(err, CodeNoScript) {
		r, err = c.eval(ctx, "EVAL", s.Text, key, args, replicas)
	}
	return r, err
}

func (c *conn) eval(ctx context.Context, command, script, key string, args func() []string, replicas int) (Reply, error) {
	if c.closed.Load() {
		return Reply{}, ErrClosed
	}
	if replicas == 0 {
		return c.reply(ctx, c.c.Do(ctx, c.c.B().Arbitrary(command, script, "1").Keys(key).Args(args()...).Build()))
	}
	var r Reply
	err := c.apart.use(ctx, func(own rueidis.Client) (err error) {
		// WAIT asks for the last write of its own connection, so both go together. It keeps the connection until it answers.
		got := own.DoMulti(ctx, own.B().Arbitrary(command, script, "1").Keys(key).Args(args()...).Build(), own.B().Arbitrary("WAIT", strconv.Itoa(replicas), strconv.Itoa(int(waitLimit.Milliseconds()))).Build())
		if r, err = c.reply(ctx, got[0]); err != nil {
			return err
		}
		n, err := c.reply(ctx, got[1])
		if err == nil && n.Int() < int64(replicas) {
			err = &Refused{Code: CodeFewReplicas, Text: CodeFewReplicas + " " + strconv.Itoa(int(n.Int())) + " of " + strconv.Itoa(replicas) +
				" replicas have acknowledged the write in time; it may stay or be lost"}
		}
		return err
	})
	return r, err
}

// Do implements Conn.
func (c *conn) Do(ctx context.Context, command ...string) (Reply, error) {
	if c.closed.Load() {
		return Reply{}, ErrClosed
	}
	size := 0
	for _, part := range command {
		size += len(part)
	}
	if size < Large {
		return c.reply(ctx, c.c.Do(ctx, build(c.c, command)))
	}
	var r Reply
	err := c.apart.use(ctx, func(own rueidis.Client) (err error) {
		r, err = c.reply(ctx, own.Do(ctx, build(own, command)))
		return err
	})
	return r, err
}

func build(c rueidis.Client, command []string) rueidis.Completed {
	return c.B().Arbitrary(command[0]).Args(command[1:]...).Build()
}

// Look implements Conn.
func (c *conn) Look(ctx context.Context, hash, field string, command ...string) (value, reply Reply, err error) {
	if c.closed.Load() {
		return Reply{}, Reply{}, ErrClosed
	}
	both := func(by rueidis.Client) error {
		got := by.DoMulti(ctx, build(by, command), build(by, []string{"HGET", hash, field}))
		if reply, err = c.reply(ctx, got[0]); err == nil {
			value, err = c.reply(ctx, got[1])
		}
		return err
	}
	if command[0] == "GET" {
		err = c.apart.use(ctx, both)
	} else {
		err = both(c.c)
	}
	return value, reply, err
}

// Publish implements Conn.
func (c *conn) Publish(ctx context.Context, channel, data string) (int, error) {
	r, err := c.Do(ctx, "PUBLISH", channel, data)
	return int(r.Int()), err
}

// Close implements Conn.
func (c *conn) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.c.Close()
	c.apart.close()
}

func (c *conn) reply(ctx context.Context, r rueidis.RedisResult) (Reply, error) {
	m, err := r.ToMessage()
	if err == nil || rueidis.IsRedisNil(err) {
		return Reply{m}, nil
	}
	if c.closed.Load() {
		return Reply{}, ErrClosed
	}
	return Reply{}, translate(ctx, err)
}

// translate turns the library's errors into this package's.
func translate(ctx context.Context, err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return refused(e.Error())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return ErrClosed
	}
	if errors.Is(err, rueidis.ErrDedicatedClientRecycled) {
		return errLost
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		return &silence{"redis: the server hasn't answered for some seconds: " + err.Error(), NotSent(err)}
	}
	return err
}
