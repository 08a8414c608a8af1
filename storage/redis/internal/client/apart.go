package client

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// apart are connections for calls that would keep others waiting. Each call has one for itself, and leaves it to the
// next call. When a connection is cut, the others usually are, too, and a call would find that out one by one. So then
// all are left to the calls that have them, and new ones are opened.
type apart struct {
	o     Options
	turns chan struct{} // holds a token for each call under way

	mu     sync.Mutex
	pool   *pool    // nil before the first call, and after a cut
	opens  *opening // nil unless a pool is being opened
	closed bool
}

type pool struct {
	c     rueidis.Client
	users int
	old   bool // nobody takes it any more
}

type opening struct {
	done   chan struct{} // closed when the fields below are set
	cancel context.CancelFunc
	err    error
}

// use calls f with a client for one call.
func (a *apart) use(ctx context.Context, f func(own rueidis.Client) error) error {
	select {
	case a.turns <- struct{}{}:
		defer func() { <-a.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p, err := a.take(ctx)
	if err != nil {
		return err
	}
	err = f(p.c)
	a.give(p, ctx.Err() == nil && Cut(err))
	return err
}

// take returns a pool that gives the caller a connection, and opens one if there is none. It waits no longer than ctx.
func (a *apart) take(ctx context.Context) (*pool, error) {
	for {
		a.mu.Lock()
		switch {
		case a.closed:
			a.mu.Unlock()
			return nil, ErrClosed
		case a.pool != nil:
			p := a.pool
			p.users++
			a.mu.Unlock()
			return p, nil
		case a.opens == nil:
			a.open()
		}
		o := a.opens
		a.mu.Unlock()
		select {
		case <-o.done:
			if o.err != nil {
				return nil, o.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open begins to open a pool. The caller holds a.mu.
func (a *apart) open() {
	ctx, cancel := context.WithCancel(context.Background())
	o := &opening{done: make(chan struct{}), cancel: cancel}
	a.opens = o
	with := options(a.o)
	with.DisableAutoPipelining, with.BlockingPoolSize = true, mostAside
	go func() {
		defer cancel()
		c, err := dial(ctx, with)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.opens = nil
		switch {
		case a.closed:
			o.err = ErrClosed
			if err == nil {
				go c.Close()
			}
		case err != nil:
			o.err = translate(ctx, err)
		default:
			a.pool = &pool{c: c}
		}
		close(o.done)
	}()
}

// give takes a pool back. cut says that a connection was cut.
func (a *apart) give(p *pool, cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.users--
	if cut {
		p.old = true
		if a.pool == p {
			a.pool = nil
		}
	}
	if p.old && p.users == 0 {
		go p.c.Close() // it may wait for the server, and others for the lock
	}
}

// close ends all connections. Calls under way fail.
func (a *apart) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.opens != nil {
		a.opens.cancel()
	}
	if a.pool != nil {
		go a.pool.c.Close()
		a.pool.old, a.pool.users = true, a.pool.users+1 // it is closed, so nobody closes it again
		a.pool = nil
	}
}
