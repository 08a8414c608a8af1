package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

const (
	// A call has at most so many units, and bytes unless it has one unit alone.
	maxUnits, maxBytes = 512, 1 << 20

	// flights is how many calls may be under way. With one, the server idles while a reply travels.
	flights = 2
)

// waiting are the units that no call has taken yet.
type waiting struct {
	mu      sync.Mutex
	units   []*Unit
	flights int
	closed  bool
	idle    chan struct{} // closed when no call is under way, after close
}

// Do does a unit. The unit is the callee's until Do returns, and for good when the error is that of ctx.
func (e *Engine) Do(ctx context.Context, u *Unit) error {
	if why := e.refusal.Load(); why != nil && u.grows {
		return *why
	}
	if u.steps == 0 {
		return e.Closed()
	}
	u.ctx, u.done = ctx, make(chan struct{})
	w := &e.waiting
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed()
	}
	w.units = append(w.units, u)
	fly := w.flights < flights
	if fly {
		w.flights++
	}
	w.mu.Unlock()
	if fly {
		go e.fly()
	}
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Refuse makes units fail that need memory, until it is called with nil. Messages that are there can still be handled.
func (e *Engine) Refuse(why error) {
	if why == nil {
		e.refusal.Store(nil)
		return
	}
	e.refusal.Store(&why)
}

func errClosed() error { return fmt.Errorf("%w: it is closed", driver.ErrUnavailable) }

// Closed is the error of calls after Close, or nil.
func (e *Engine) Closed() error {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	if e.waiting.closed {
		return errClosed()
	}
	return nil
}

// Close waits for the calls under way. Later units fail.
func (e *Engine) Close() {
	w := &e.waiting
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed, w.idle = true, make(chan struct{})
	if w.flights == 0 {
		close(w.idle)
	}
	w.mu.Unlock()
	<-w.idle
	e.conn.Close()
}

// fly makes calls as long as units wait.
func (e *Engine) fly() {
	w := &e.waiting
	for {
		w.mu.Lock()
		list := w.take()
		if len(list) == 0 {
			w.flights--
			if w.closed && w.flights == 0 {
				close(w.idle)
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		e.call(list)
	}
}

// take returns the units of the next call.
func (w *waiting) take() []*Unit {
	n, size := 0, 0
	for n < len(w.units) && n < maxUnits {
		size += w.units[n].size
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	list := w.units[:n:n]
	w.units = w.units[n:]
	if len(w.units) == 0 {
		w.units = nil
	}
	return list
}

// call does units in one call, or one by one where together they have failed by what may be the fault of one of them.
func (e *Engine) call(list []*Unit) {
	live := list[:0:0]
	for _, u := range list {
		if u.ctx.Err() != nil { // its caller has gone
			u.end(context.Cause(u.ctx))
			continue
		}
		live = append(live, u)
	}
	if len(live) == 0 {
		return
	}
	err := e.try(live)
	if len(live) > 1 && faultOfOne(err) {
		for _, u := range live {
			u.end(e.try([]*Unit{u}))
		}
		return
	}
	for _, u := range live {
		u.end(err)
	}
}

func (u *Unit) end(err error) {
	u.err = err
	close(u.done)
}

func faultOfOne(err error) bool {
	var r *client.Refused
	return errors.As(err, &r) && (r.Code == client.CodeMemory || r.Code == client.CodeWrongType)
}

func (e *Engine) try(list []*Unit) error {
	n, script := 0, e.scripts.free
	for _, u := range list {
		n += 1 + len(u.args)
		if u.grows {
			script = e.scripts.grow
		}
	}
	args := make([]string, 0, n)
	for _, u := range list {
		args = append(args, strconv.Itoa(u.steps))
		args = append(args, u.args...)
	}
	// Not a caller's context: the call is of many.
	reply, err := e.eval(context.Background(), script, args, e.cfg.Replicas)
	if err != nil {
		return err
	}
	failures := reply.At(3).List()
	for i := 0; i+2 < len(failures); i += 3 {
		u := list[failures.At(i).Int()-1]
		u.Failures = append(u.Failures, Failure{int(failures.At(i+1).Int()) - 1, failed(failures.At(i + 2).Text())})
	}
	return nil
}
