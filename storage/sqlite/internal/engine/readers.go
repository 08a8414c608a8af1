package engine

import (
	"context"
	"sync"
)

// maxReaders bounds the connections that read. A read seldom waits for the disk, so more would not help.
const maxReaders = 4

// readers is a pool of read-only connections, opened as they are needed. A read sees all that was committed before it
// began.
type readers struct {
	file    *file
	free    chan *Conn // maxReaders are in it or in use; nil stands for one that isn't opened yet
	closing chan struct{}
	once    sync.Once
}

func newReaders(f *file) *readers {
	r := &readers{file: f, free: make(chan *Conn, maxReaders), closing: make(chan struct{})}
	for range maxReaders {
		r.free <- nil
	}
	return r
}

// do runs f with a connection. f is run again when another process was in the way, so it must have no lasting effect
// before it succeeds.
func (r *readers) do(ctx context.Context, f func(c *Conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.file.check(); err != nil {
		return err
	}
	var c *Conn
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
	return Retry(ctx, func() (err error) {
		if c == nil {
			if c, err = openReader(r.file); err != nil {
				return err
			}
		}
		return f(c)
	})
}

func openReader(f *file) (*Conn, error) {
	c, err := f.connect(ReadOnly)
	if err != nil {
		return nil, err
	}
	if err := c.Exec("PRAGMA temp_store = MEMORY"); err != nil {
		c.Close()
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
				c.Close()
			}
		}
	})
}
