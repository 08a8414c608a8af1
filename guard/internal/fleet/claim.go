package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// Claim asks for the right to make the probe. One process at a time has it, until it says how the probe ended, or says
// nothing for a while: internal/agree.Hold has the proof. Where the record doesn't concern this process, or can't be
// reached for a while, it probes for itself. Otherwise Claim returns how long to wait.
func (f *Fleet) Claim(ctx context.Context) (wait time.Duration, ok bool) {
	if f.view().State != breaker.Due {
		return 0, true
	}
	f.mu.Lock()
	io := f.io
	f.mu.Unlock()
	select {
	case io <- struct{}{}:
		defer func() { <-io }()
	case <-ctx.Done():
		return 0, false
	}
	for range mostRaces {
		v := f.view()
		if v.State != breaker.Due {
			return 0, true // another call was quicker; the breaker decides
		}
		err := f.ledger.look(ctx)
		if err == nil && !f.ledger.doc.concerns(f.id) || errors.Is(err, errLeft) {
			if f.follow(v.Epoch); !f.begin(v.Epoch, time.Time{}) {
				continue
			}
			return 0, true
		}
		if err != nil {
			return f.byItself(ctx, v.Epoch, err)
		}
		if !f.followed && f.ledger.doc.Open || f.followed && f.ledger.doc.Tries > f.tries || f.ledger.pause.After(time.Now()) {
			f.follow(v.Epoch)
			if now := f.view(); now.State != breaker.Due {
				return now.Rest(time.Now()), false
			}
		}
		stuck := f.ledger.stuck(f.id, 2*v.Probe.Most+f.place)
		next, ok := f.ledger.doc.claimed(f.id, stuck || !time.Now().Before(agree.DeadFrom(f.ledger.seen.Since, probeTTL)))
		if !ok {
			wait := lookEvery - rand.N(lookEvery/2)
			f.postpone(wait)
			f.hurry()
			return wait, false
		}
		switch err := f.ledger.write(ctx, next); {
		case storage.LostRace(err):
			continue
		case err != nil:
			return f.byItself(ctx, v.Epoch, err)
		}
		if f.remember(); !f.begin(v.Epoch, agree.ProvedUntil(f.ledger.wrote, probeTTL)) {
			continue
		}
		if stuck {
			f.ledger.log().LogAttrs(ctx, slog.LevelWarn, "a probe of another process goes on for too long; this one probes, too", slog.String("guard", f.ledger.name))
		}
		return 0, true
	}
	return AgainSoon, false
}

// byItself lets this process probe for itself when the store has failed for a while.
func (f *Fleet) byItself(ctx context.Context, epoch uint64, err error) (wait time.Duration, ok bool) {
	f.ledger.note(ctx, err)
	if time.Since(f.ledger.failing) >= 2*lookEvery {
		f.begin(epoch, time.Time{})
		return 0, true
	}
	f.postpone(AgainSoon)
	return AgainSoon, false
}

// begin notes that a call of this process may be the probe, until till. It reports false if the breaker has changed
// since an epoch, because another call of this process is the probe, or was. The verdict of that one stays.
func (f *Fleet) begin(epoch uint64, till time.Time) bool {
	f.mu.Lock()
	same := f.view().Epoch == epoch
	if same {
		f.probing, f.right, f.verdict, f.till = true, epoch, none, till
	}
	f.mu.Unlock()
	if same {
		f.hurry()
	}
	return same
}

// Free gives up the right to probe, if no call uses it.
func (f *Fleet) Free() {
	f.mu.Lock()
	v := f.view()
	unused := f.probing && v.State != breaker.Probing && v.Probed != f.right // else its end is about to be told
	if unused {
		f.probing, f.verdict = false, freed
	}
	f.mu.Unlock()
	if unused {
		f.hurry()
	}
}

// postpone lets no call through for a while: another process probes.
func (f *Fleet) postpone(rest time.Duration) {
	f.b.Update(func(m *breaker.Machine, now time.Time) { m.Postpone(rest, now) })
}

// proveProbe notes that the last write of the record says that this process probes.
func (f *Fleet) proveProbe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probing && f.ledger.doc.Prober == f.id && f.ledger.wrote.Before(f.till) {
		f.till = agree.ProvedUntil(f.ledger.wrote, probeTTL)
	}
}

// StoodStill reports that this process stood still since it claimed the probe, so that another may probe by now.
func (f *Fleet) StoodStill() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probing && !f.till.IsZero() && !time.Now().Before(f.till)
}
