package fleet

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/storage"
)

// step looks once, adds what this process knows, and does what the record says.
func (f *Fleet) step(ctx context.Context) (quiet bool, pause time.Duration) {
	f.io <- struct{}{}
	defer func() { <-f.io }()
	known, err := f.agree(ctx)
	f.ledger.note(ctx, err)
	if err != nil {
		return f.calm() && (!f.ledger.rung.Load() || time.Since(f.ledger.failing) >= caseAge), AgainSoon
	}
	if known.verdict == none {
		f.follow(known.epoch)
	} else { // it is this process's own doing
		f.remember()
	}
	switch {
	case known.probing:
		return false, probeTTL / 3
	case known.ill && !known.waited && !f.ledger.doc.Open:
		return false, grace
	}
	return f.calm(), lookEvery - rand.N(lookEvery/2)
}

// agree writes what this process knows.
func (f *Fleet) agree(ctx context.Context) (facts, error) {
	for range mostRaces {
		first := f.ledger.looked.IsZero()
		if err := f.ledger.look(ctx); err != nil {
			return facts{}, err
		}
		if first && !f.ledger.doc.Open && len(f.ledger.doc.Ill) > 0 {
			f.old = f.ledger.doc.Epoch
		} else if f.old != f.ledger.doc.Epoch {
			f.old = 0 // one of those that have reported lives
		}
		known := f.facts()
		if known.verdict == none && f.followed != f.ledger.doc.Open { // what the record says comes first
			f.follow(known.epoch)
			known = f.facts()
		}
		next, changed := f.ledger.doc.with(known)
		again := !f.ledger.doc.Open && !slices.Contains(f.ledger.doc.Ill, f.id)
		if changed || f.ledger.bad.Load() {
			pause := f.ledger.pause
			if err := f.ledger.write(ctx, next); storage.LostRace(err) {
				continue
			} else if err != nil {
				return known, err
			}
			if next.Pause > 0 && next.Pause == known.milliseconds() {
				f.ledger.pause = known.asked
			} else if next.Pause > 0 {
				f.ledger.pause = pause
			}
			if f.old > 0 && !known.gone && !known.ill {
				f.old = f.ledger.doc.Epoch
			}
			if f.proveProbe(); !known.probing {
				f.ledger.ring(ctx)
			}
		}
		f.mu.Lock()
		if f.verdict == known.verdict {
			f.verdict = none // the record says it, or it is another's probe by now
		}
		f.mu.Unlock()
		switch {
		case !known.ill:
			f.reported = time.Time{}
		case f.reported.IsZero() || again: // the others have time to answer
			f.reported = time.Now()
		}
		return known, nil
	}
	return facts{}, storage.ErrPrecondition
}

// facts returns what this process knows.
func (f *Fleet) facts() facts {
	now := time.Now()
	k := facts{
		id: f.id, waited: !f.reported.IsZero() && now.Sub(f.reported) >= grace, recent: now.Sub(f.ledger.changed) < caseAge,
		gone: f.old > 0 && now.Sub(f.ledger.seen.Since) >= caseAge,
	}
	f.mu.Lock()
	k.probing, k.verdict = f.probing, f.verdict
	f.mu.Unlock()
	v := f.view()
	if k.probing && (v.State == breaker.Ramping || v.State == breaker.Closed) { // its end is about to be told
		k.probing, k.verdict = false, done
	}
	k.epoch, k.ill, k.well, k.since, k.why = v.Epoch, v.Own, v.Answered, v.Opened, v.Why
	if v.State == breaker.Open && v.RetryAfterOwn.After(now) {
		k.asked, k.pause = v.RetryAfterOwn, v.RetryAfterOwn.Sub(now)
		k.waits = f.ledger.waits(k, now)
	}
	return k
}

// follow does what the record says, if the breaker hasn't changed meanwhile. A probe that failed anywhere begins the
// next pause everywhere. Its own process's is the longest: that may be the only one that can't reach the service, so
// the others probe before it.
func (f *Fleet) follow(epoch uint64) {
	f.mu.Lock()
	lead := 85 // it has looked late
	if f.hearing != nil {
		lead = 90
	}
	f.mu.Unlock()
	f.b.Update(func(m *breaker.Machine, now time.Time) {
		if m.View(now).Epoch != epoch {
			return // what has changed it hurries
		}
		was, tries, doc := f.followed, f.tries, f.ledger.doc
		switch f.remember(); {
		case doc.Open:
			m.OpenedByOthers(breaker.Outage{Tries: doc.Tries, More: was && doc.Tries > tries, Pause: f.ledger.pause, Why: doc.Why, Part: lead}, now)
		case was:
			m.Recovered(now)
		}
	})
}

// remember notes what the record says.
func (f *Fleet) remember() {
	f.followed, f.tries = f.ledger.doc.Open, f.ledger.doc.Tries
	f.forAll.Store(f.followed)
}

// calm reports that there is nothing to agree on. In the ramp, too, what others report comes by a ring or by calls that
// fail, as soon as the record has all that this process knows.
func (f *Fleet) calm() bool {
	f.mu.Lock()
	told := f.verdict == none && f.reported.IsZero()
	f.mu.Unlock()
	now := f.view().State
	return !f.followed && f.old == 0 && (now == breaker.Closed || now == breaker.Ramping && told)
}
