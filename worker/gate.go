package worker

import (
	"context"
	"sync"
)

// gate lets any number of callers pass at a time, or one alone. A caller that wants to be alone waits until the others
// have passed. Callers that come meanwhile wait until it opens the gate again.
type gate struct {
	mu      sync.Mutex
	passing int
	alone   int           // callers that are alone, or wait for it
	taken   bool          // one of them is alone
	changed chan struct{} // closed when those who wait must look again; nil while nobody waits
}

// pass waits until nobody is alone, or wants to be. After a nil error the caller must call passed.
func (g *gate) pass(ctx context.Context) error {
	return g.wait(ctx, func() bool {
		if g.alone > 0 {
			return false
		}
		g.passing++
		return true
	})
}

// passed ends what pass began.
func (g *gate) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing--
	if g.passing == 0 {
		g.wake()
	}
}

// close waits until nobody passes and nobody else is alone. After a nil error the caller must call open.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.alone++
	g.mu.Unlock()
	err := g.wait(ctx, func() bool {
		if g.passing > 0 || g.taken {
			return false
		}
		g.taken = true
		return true
	})
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.alone--
		g.wake()
	}
	return err
}

// open ends what close began.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone--
	g.taken = false
	g.wake()
}

// wait calls try, under the mutex, until it succeeds or ctx ends.
func (g *gate) wait(ctx context.Context, try func() bool) error {
	for ctx.Err() == nil {
		g.mu.Lock()
		if try() {
			g.mu.Unlock()
			return nil
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// wake lets those who wait look again. The caller holds the mutex.
func (g *gate) wake() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
