// Package rate keeps a caller near the rate that a service accepts.
package rate

import (
	"context"
	"sync"
	"time"
)

// A Pace keeps one process's requests near the rate that a queue or a table accepts. It delays no request until one
// is refused. Then it allows seven tenths of the rate at the refusal. From there the rate grows like a CUBIC
// sender's (RFC 9438): quickly at first, slowly near the refused rate, and quickly again beyond it. At ten times
// that rate the limit ends. So many processes find their shares without knowing of each other. Unlike CUBIC's, the
// growth is in proportion to the rate, which may be ten a second or ten thousand.
//
// A pace delays, it never refuses. The zero Pace is ready; it may be used concurrently.
type Pace struct {
	mu   sync.Mutex
	cut  time.Time // when the rate was last cut; zero: there is no limit
	peak float64   // the rate at the cut; like all rates in requests a second
	turn time.Time // of the last request under a limit

	window time.Time // n counts the requests since then
	n      int
	rate   float64 // in the window before; 0: unknown
}

const (
	paceCut    = 0.7
	paceBack   = 2 * time.Second // from a cut until the rate is the same again
	paceWindow = paceBack / 4
	paceBurst  = 8  // requests that don't wait after a rest
	paceFree   = 10 // times the refused rate, where the limit ends
	paceLeast  = 2.0
	paceAhead  = time.Second // the longest delay of others by requests that don't wait
)

// Wait returns when the next request may be made: at its turn, after most, or after half the time that ctx has
// left, whichever is first. Its error is ctx's. With most 0 it never waits.
func (p *Pace) Wait(ctx context.Context, most time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d := p.line(most)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// line takes a turn, and returns the time until it, or most if that is shorter.
func (p *Pace) line(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	rate := p.allowed(now)
	if rate == 0 {
		p.count(now)
		return 0
	}
	d := min(p.take(now, rate, max(most, paceAhead)), most)
	p.count(now.Add(max(d, 0)))
	return d
}

// take takes the turn after the last one, and returns the time until it. A turn is taken, and so delays others,
// even if its request can't wait for it; but no turn is taken beyond bound.
func (p *Pace) take(now time.Time, rate float64, bound time.Duration) time.Duration {
	gap := time.Duration(float64(time.Second) / rate)
	turn := p.turn
	if rested := now.Add(-paceBurst * gap); turn.Before(rested) {
		turn = rested
	}
	turn = turn.Add(gap)
	if turn.Sub(now) <= bound {
		p.turn = turn
	}
	return turn.Sub(now)
}

// count counts a request at a time.
func (p *Pace) count(at time.Time) {
	p.n++
	switch d := at.Sub(p.window); {
	case d > 2*paceWindow: // after a rest, or the first request
		p.window, p.n, p.rate = at, 1, 0
	case d >= paceWindow:
		p.rate = float64(p.n) / d.Seconds()
		p.window, p.n = at, 0
	}
}

// allowed is the current rate; 0: there is no limit.
func (p *Pace) allowed(now time.Time) float64 {
	if p.cut.IsZero() {
		return 0
	}
	t := float64(now.Sub(p.cut))/float64(paceBack) - 1
	rate := p.peak * (1 + (1-paceCut)*t*t*t)
	if rate > paceFree*p.peak {
		p.cut, p.turn = time.Time{}, time.Time{}
		p.window, p.n, p.rate = time.Time{}, 0, 0
		return 0
	}
	return rate
}

// Refused notes that a request was refused because there were too many. It takes a turn for its repeat.
func (p *Pace) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	allowed := p.allowed(now)
	if now.Sub(p.cut) >= paceWindow { // otherwise the request was sent before the cut
		rate := max(p.rate, float64(p.n)/max(now.Sub(p.window), paceWindow/10).Seconds())
		if allowed > 0 {
			rate = min(rate, allowed)
		}
		if rate == 0 { // the request was made before the limit ended
			rate = p.peak
		}
		p.peak, p.cut = max(rate, paceLeast), now
		allowed = p.allowed(now)
	}
	p.take(now, allowed, paceAhead)
}
