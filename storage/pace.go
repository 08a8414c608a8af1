package storage

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Pace keeps what one process asks of something that refuses when there is too much, a queue or a table, near the rate that
// it takes. It lets everything through until a request is refused; then seven tenths of the rate that there was. From
// there the rate grows as a CUBIC sender's does (RFC 9438): at first quickly, slowly near what was refused, quickly again
// beyond, and at ten times of it there is no limit any more. So many processes find their shares without knowing of each
// other. Unlike CUBIC's, the growth is in proportion to the rate, which may be ten a second or ten thousand.
//
// The zero Pace is ready; it may be used concurrently.
type Pace struct {
	mu   sync.Mutex
	cut  time.Time // when the rate was last cut; zero: there is no limit
	peak float64   // the rate then; as all rates in requests a second
	turn time.Time // of the request that came last, where there is a limit

	window time.Time // since then n requests were counted
	n      int
	rate   float64 // before
}

const (
	paceCut    = 0.7
	paceBack   = 2 * time.Second // until the rate is back where it was cut
	paceWindow = paceBack / 4
	paceBurst  = 8  // requests after a rest that don't wait
	paceFree   = 10 // times the rate that was refused: no limit any more
	paceLeast  = 2.0
)

// Wait returns when the next request may be made. It fails at once, with [ErrThrottled], if that would take longer than most.
func (p *Pace) Wait(ctx context.Context, most time.Duration) error {
	d, err := p.line(most)
	if err != nil || d <= 0 {
		return err
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

// line gives out a turn, and returns how far off it is.
func (p *Pace) line(most time.Duration) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.cut.IsZero() {
		p.count(now)
		return 0, nil
	}
	rate := p.allowed(now)
	if rate > paceFree*p.peak {
		p.cut = time.Time{}
		p.count(now)
		return 0, nil
	}
	turn := p.after(now, rate)
	if turn.Sub(now) > most {
		return 0, fmt.Errorf("%w: requests were refused lately, and too many wait for their turn", ErrThrottled)
	}
	p.turn = turn
	p.count(turn)
	return turn.Sub(now), nil
}

// after is the turn behind the last one.
func (p *Pace) after(now time.Time, rate float64) time.Time {
	gap := time.Duration(float64(time.Second) / rate)
	turn := p.turn
	if rested := now.Add(-paceBurst * gap); turn.Before(rested) {
		turn = rested
	}
	return turn.Add(gap)
}

// count counts a request of that time.
func (p *Pace) count(at time.Time) {
	p.n++
	switch d := at.Sub(p.window); {
	case p.window.IsZero():
		p.window = at
	case d >= paceWindow:
		p.rate = float64(p.n) / d.Seconds()
		p.window, p.n = at, 0
	}
}

// allowed is the rate at a time after the cut.
func (p *Pace) allowed(now time.Time) float64 {
	t := float64(now.Sub(p.cut))/float64(paceBack) - 1
	return p.peak * (1 + (1-paceCut)*t*t*t)
}

// Refused tells that a request was refused because there were too many. It takes a turn, in which it may be made again.
func (p *Pace) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	defer func() { p.turn = p.after(now, p.allowed(now)) }()
	if now.Sub(p.cut) < paceWindow {
		return // it was on its way already
	}
	rate := p.rate
	if d := now.Sub(p.window); rate == 0 || d > 2*paceWindow {
		rate = float64(p.n) / max(d, paceWindow/10).Seconds()
	}
	if !p.cut.IsZero() {
		rate = min(rate, p.allowed(now))
	}
	p.peak, p.cut = max(rate, paceLeast), now
}
