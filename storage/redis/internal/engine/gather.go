package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

const (
	// A call has at most so many units, and bytes unless it has one unit alone.
	maxUnits, maxBytes = 512, 1 << 20

	// flights is how many calls may be under way. With one, the server idles while a reply travels.
	flights = 2
)

// A gatherer does units of work. Units of many callers gather while calls are under way, and go together in the next.
type gatherer struct {
	caller     *caller
	grow, free *client.Script // for units that need memory, and for others

	why atomic.Pointer[error] // of the refusal of units that need memory

	mu     sync.Mutex
	units  []*Unit // those that no call has taken yet
	flies  [flights]bool
	calls  [flights]int64 // of each flight, so far
	closed bool
	idle   chan struct{} // closed when no call is under way, after the end
}

func (g *gatherer) do(ctx context.Context, u *Unit) error {
	if err := g.refusal(); err != nil && u.grows {
		return err
	}
	if u.steps == 0 {
		return g.ended()
	}
	u.ctx, u.done = ctx, make(chan struct{})
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed()
	}
	g.units = append(g.units, u)
	flight := slices.Index(g.flies[:], false)
	if flight >= 0 {
		g.flies[flight] = true
	}
	g.mu.Unlock()
	if flight >= 0 {
		go g.fly(flight)
	}
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gatherer) refuse(why error) {
	if why == nil {
		g.why.Store(nil)
		return
	}
	g.why.Store(&why)
}

func (g *gatherer) refusal() error {
	if why := g.why.Load(); why != nil {
		return *why
	}
	return nil
}

func errClosed() error { return fmt.Errorf("%w: it is closed", driver.ErrUnavailable) }

func (g *gatherer) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed()
	}
	return nil
}

// end waits for the calls under way, and reports whether it is the first to do so.
func (g *gatherer) end() bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	g.closed, g.idle = true, make(chan struct{})
	if !slices.Contains(g.flies[:], true) {
		close(g.idle)
	}
	g.mu.Unlock()
	<-g.idle
	return true
}

// fly makes calls as long as units wait.
func (g *gatherer) fly(flight int) {
	for {
		g.mu.Lock()
		list := g.take()
		if len(list) == 0 {
			g.flies[flight] = false
			if g.closed && !slices.Contains(g.flies[:], true) {
				close(g.idle)
			}
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.call(list, flight)
	}
}

// take returns the units of the next call.
func (g *gatherer) take() []*Unit {
	n, size := 0, 0
	for n < len(g.units) && n < maxUnits {
		size += g.units[n].size
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	list := g.units[:n:n]
	g.units = g.units[n:]
	if len(g.units) == 0 {
		g.units = nil
	}
	return list
}

// call does units in one call, or one by one where together they have failed by what may be the fault of one of them.
func (g *gatherer) call(list []*Unit, flight int) {
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
	err := g.try(live, flight)
	if len(live) > 1 && faultOfOne(err) {
		for _, u := range live {
			u.end(g.try([]*Unit{u}, flight))
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

// try makes a call of units. The call has the next number of its flight, by which the server knows a repeat.
func (g *gatherer) try(list []*Unit, flight int) error {
	g.calls[flight]++
	n, script := 0, g.free
	for _, u := range list {
		n += 1 + len(u.args)
		if u.grows {
			script = g.grow
		}
	}
	args := append(make([]string, 0, n+2), strconv.Itoa(flight), strconv.FormatInt(g.calls[flight], 10))
	for _, u := range list {
		args = append(args, strconv.Itoa(u.steps))
		args = append(args, u.args...)
	}
	// Not a caller's context: the call is of many.
	reply, err := g.caller.eval(context.Background(), script, args, g.caller.cfg.Replicas, true)
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
