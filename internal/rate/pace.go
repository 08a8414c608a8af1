// Package rate holds what keeps a caller near the rate that somebody else takes.
package rate

import (
	"context"
	"sync"
	"time"
)

// A Pace keeps what one process asks of something that refuses when there is too much, a queue or a table, near the rate that
// it takes. It lets everything through until a request is refused; then seven tenths of the rate that there was. From
// there the rate grows as a CUBIC sender's does (RFC 9438): at first quickly, slowly near what was refused, quickly again
// beyond, and at ten times of it there is no limit any more. So many processes find their shares without knowing of each
// other. Unlike CUBIC's, the growth is in proportion to the rate, which may be ten a second or ten thousand.
//
// A pace delays, it never refuses. The zero Pace is ready; it may be used concurrently.
type Pace struct {
	mu   sync.Mutex
	cut  time.Time // when the rate was last cut; zero: there is no limit
	peak float64   // the rate then; as all rates in requests a second
	turn time.Time // of the request that came last, where there is a limit

	window time.Time // since then n requests were counted
	n      int
	rate   float64 // in the window before; 0: nobody knows
}

const (
	paceCut    = 0.7
	paceBack   = 2 * time.Second // until the rate is back where it was cut
	paceWindow = paceBack / 4
	paceBurst  = 8  // requests after a rest that don't wait
	paceFree   = 10 // times the rate that was refused: no limit any more
	paceLeast  = 2.0
	paceAhead  = time.Second // that requests which don't wait hold up others at most
)

// Wait returns when the next request may be made: when its turn has come, or after most, or after half the time that ctx has
// left, whichever is first. Its error is that of ctx. With most 0 it never waits.
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

// line gives out a turn, and says how far off it is, or most if that is sooner.
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

// take takes the turn behind the last one, and says how far off it is. Who can't wait for it holds up others all the same, but
// not beyond bound.
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

// count counts a request of that time.
func (p *Pace) count(at time.Time) {
	p.n++
	switch d := at.Sub(p.window); {
	case d > 2*paceWindow: // it rested, or is new
		p.window, p.n, p.rate = at, 1, 0
	case d >= paceWindow:
		p.rate = float64(p.n) / d.Seconds()
		p.window, p.n = at, 0
	}
}

// allowed is the rate now; 0: there is no limit.
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

// Refused tells that a request was refused because there were too many. It takes a turn, in which it may be made again.
func (p *Pace) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	allowed := p.allowed(now)
	if now.Sub(p.cut) >= paceWindow { // else it was on its way already
		rate := max(p.rate, float64(p.n)/max(now.Sub(p.window), paceWindow/10).Seconds())
		if allowed > 0 {
			rate = min(rate, allowed)
		}
		if rate == 0 { // it was made before the limit was lifted
			rate = p.peak
		}
		p.peak, p.cut = max(rate, paceLeast), now
		allowed = p.allowed(now)
	}
	p.take(now, allowed, paceAhead)
}
