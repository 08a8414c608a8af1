package sqlite

import (
	"context"
	"sync"
)

// maxReaders bounds the connections that read. A read seldom waits for the disk, so more would not help.
const maxReaders = 4

// readers is a pool of read-only connections, opened as they are needed. A read sees all that was committed before it
// began.
type readers struct {
	place   *place
	free    chan *conn // maxReaders are in it or in use; nil stands for one that isn't opened yet
	closing chan struct{}
	once    sync.Once
}

func newReaders(p *place) *readers {
	r := &readers{place: p, free: make(chan *conn, maxReaders), closing: make(chan struct{})}
	for range maxReaders {
		r.free <- nil
	}
	return r
}

// do runs f with a connection. f is run again when another process was in the way, so it must have no lasting effect
// before it succeeds.
func (r *readers) do(ctx context.Context, f func(c *conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.place.check(); err != nil {
		return err
	}
	var c *conn
	select {
	case <-r.closing:
		return errClosed
	default:
	}
	select {
	case c = <-r.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.closing:
		return errClosed
	}
	defer func() { r.free <- c }()
	return patient(cause(ctx), func() (err error) {
		if c == nil {
			if c, err = openReader(r.place); err != nil {
				return err
			}
		}
		return f(c)
	})
}

func openReader(p *place) (*conn, error) {
	c, err := p.open(openReadOnly)
	if err != nil {
		return nil, err
	}
	if err := c.exec("PRAGMA temp_store = MEMORY"); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close waits for the reads under way.
func (r *readers) close() {
	r.once.Do(func() {
		close(r.closing)
		for range maxReaders {
			if c := <-r.free; c != nil {
				c.close()
			}
		}
	})
}
