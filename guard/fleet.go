package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	guards    = "guards"        // the container of the records, and the topic of their changes
	lookEvery = 5 * time.Second // at the record, while the breaker isn't closed
	probeTTL  = 6 * time.Second // of a prober that says nothing; it beats every third of that
	grace     = time.Second     // that other processes have to say that their calls are done
	callTime  = 2 * time.Second // of the store
	againSoon = time.Second     // after a call of the store that failed
	mostRaces = 20
	pauseStep = 100 * time.Millisecond // by which a pause is longer than another, or it isn't told
)

// fleet makes the breakers of all processes act as one, by a record that is written only when something changes. Where
// the store fails, the breaker goes on by itself.
type fleet struct {
	ledger
	b  *breaker
	id string

	forAll atomic.Bool // the record is open
	active atomic.Bool // the breaker isn't closed, or there is news

	mu      sync.Mutex
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // capacity 1
	hearing *storage.Registration
	probing bool
	right   uint64    // epoch of the breaker for which this process may probe
	till    time.Time // no other process may probe before; zero: none has a say
	verdict verdict

	io       chan struct{} // capacity 1: one request at a time; it guards the fields below, and the ledger
	reported time.Time     // when this process reported that it is ill; zero: it hasn't
	followed bool          // the record was open when it was seen last
	tries    int           // that it had then
	old      int64         // epoch of the record that this process found with reports when it started; 0: none
	failing  time.Time     // since when the store fails; zero: it doesn't
}

func newFleet(name string, b *breaker, log func() *slog.Logger) *fleet {
	return &fleet{ledger: ledger{name: name, log: log}, b: b, id: rand.Text()}
}

// open begins to act with the others, unless it does. It listens if the store rings.
func (f *fleet) open(ctx context.Context, s *storage.Store, listen bool) {
	f.mu.Lock()
	if f.store.CompareAndSwap(nil, s) {
		f.ctx, f.stop = context.WithCancel(context.Background())
		if f.io == nil { // else a claim may still hold it
			f.wake, f.io = make(chan struct{}, 1), make(chan struct{}, 1) // here, because a guard may be older than a bubble of synctest
		}
	}
	s, deaf := f.store.Load(), f.hearing == nil
	f.mu.Unlock()
	if listen && deaf && s.Rings() {
		ctx, cancel := storecall.Limit(ctx, callTime)
		defer cancel()
		if h, err := s.Subscribe(ctx, guards, f.hear); err == nil { // else it looks every few seconds while its breaker is open
			f.mu.Lock()
			if f.hearing == nil && f.store.Load() == s {
				f.hearing, h = h, nil
			}
			f.mu.Unlock()
			if h != nil { // the limiter of another queue was quicker, or all have left
				h.Close()
			}
		}
	}
	f.hurry()
}

// close ends all that runs. The breaker goes on by itself.
func (f *fleet) close() {
	f.mu.Lock()
	if f.store.Swap(nil) == nil {
		f.mu.Unlock()
		return
	}
	f.stop()
	h := f.hearing
	f.hearing = nil
	f.mu.Unlock()
	if h != nil {
		h.Close()
	}
	f.running.Wait()
}

// hear is the fleet's ear.
func (f *fleet) hear(name []byte, most int) int {
	if string(name) != f.name {
		return 0
	}
	if most != 0 {
		f.rung.Store(true)
		f.hurry()
	}
	return 1
}

// hurry looks at the record soon, and goes on while the breaker isn't closed.
func (f *fleet) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it will look
	}
	if f.store.Load() == nil || f.active.Load() {
		return
	}
	f.active.Store(true)
	ctx := f.ctx
	f.running.Go(func() { f.tend(ctx) })
}

// on notes what has happened to the breaker.
func (f *fleet) on(e event) {
	f.mu.Lock()
	if f.probing && e.kind != overdue && e.kind != uneasy {
		f.probing = false
		switch e.kind {
		case recovers:
			f.verdict = done
		case unknown:
			f.verdict = freed
		default:
			f.verdict = failed
		}
	}
	rung := f.hearing != nil
	f.mu.Unlock()
	if e.kind != uneasy || !rung {
		f.hurry()
	}
}

// tend keeps the record and the breaker in accord, until the breaker is closed and the record says nothing of this
// process.
func (f *fleet) tend(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-f.wake:
		default:
		}
		quiet, pause := f.step(ctx)
		if quiet && f.rest() {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	f.active.Store(false)
}

// rest ends the tending, unless there is news.
func (f *fleet) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wake) > 0 {
		return false
	}
	f.active.Store(false)
	return true
}

// step looks once, adds what this process knows, and does what the record says.
func (f *fleet) step(ctx context.Context) (quiet bool, pause time.Duration) {
	f.io <- struct{}{}
	defer func() { <-f.io }()
	known, err := f.agree(ctx)
	f.note(ctx, err)
	if err != nil {
		return f.calm() && (!f.rung.Load() || time.Since(f.failing) >= caseAge), againSoon
	}
	if known.verdict == none {
		f.follow(known.epoch)
	} else { // it is this process's own doing
		f.remember()
	}
	switch {
	case known.probing:
		return false, probeTTL / 3
	case known.ill && !known.waited && !f.doc.Open:
		return false, grace
	}
	return f.calm(), lookEvery - mathrand.N(lookEvery/2)
}

// agree writes what this process knows.
func (f *fleet) agree(ctx context.Context) (facts, error) {
	for range mostRaces {
		first := f.looked.IsZero()
		if err := f.look(ctx); err != nil {
			return facts{}, err
		}
		if first && !f.doc.Open && len(f.doc.Ill) > 0 {
			f.old = f.doc.Epoch
		} else if f.old != f.doc.Epoch {
			f.old = 0 // one of those that have reported lives
		}
		known := f.facts()
		if known.verdict == none && f.followed != f.doc.Open { // what the record says comes first
			f.follow(known.epoch)
			known = f.facts()
		}
		next, changed := f.doc.with(known)
		again := !f.doc.Open && !slices.Contains(f.doc.Ill, f.id)
		if changed || f.bad.Load() {
			pause := f.pause
			if err := f.write(ctx, next); storage.LostRace(err) {
				continue
			} else if err != nil {
				return known, err
			}
			if next.Pause > 0 && next.Pause == known.milliseconds() {
				f.pause = known.asked
			} else if next.Pause > 0 {
				f.pause = pause
			}
			if f.old > 0 && !known.gone && !known.ill {
				f.old = f.doc.Epoch
			}
			if proveProbe(f); !known.probing {
				f.ring(ctx)
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
func (f *fleet) facts() facts {
	now := time.Now()
	k := facts{
		id: f.id, waited: !f.reported.IsZero() && now.Sub(f.reported) >= grace, recent: now.Sub(f.changed) < caseAge,
		gone: f.old > 0 && now.Sub(f.since) >= caseAge,
	}
	f.mu.Lock()
	k.probing, k.verdict = f.probing, f.verdict
	f.mu.Unlock()
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if k.probing && (f.b.state == ramping || f.b.state == closed) { // its end is about to be told
		k.probing, k.verdict = false, done
	}
	k.epoch, k.ill, k.since, k.why = f.b.epoch, f.b.mine, f.b.since, f.b.last
	if f.b.state == open && f.b.owed.After(now) {
		k.asked, k.pause = f.b.owed, f.b.owed.Sub(now)
		k.waits = f.waits(k, now)
	}
	begins := f.b.state == ramping && f.b.ill == 0 && f.b.messages.ok[0].at.After(f.b.ramped)
	k.well = (f.b.state == closed || begins) && now.Sub(f.b.messages.ok[0].at) < f.b.when.Window
	return k
}

// follow does what the record says, if the breaker hasn't changed meanwhile. A probe that failed anywhere begins the
// next pause everywhere. Its own process's is the longest: that may be the only one that can't reach the service, so
// the others probe before it.
func (f *fleet) follow(epoch uint64) {
	f.mu.Lock()
	lead := time.Duration(85) // it has looked late
	if f.hearing != nil {
		lead = 90
	}
	f.mu.Unlock()
	f.b.mu.Lock()
	defer f.b.unlock()
	if f.b.epoch != epoch {
		return // what has changed it hurries
	}
	was, tries := f.followed, f.tries
	f.remember()
	switch b := f.b; {
	case b.state == probing:
	case f.doc.Open && (b.state == closed || b.state == ramping || was && f.doc.Tries > tries || f.pause.After(b.until)):
		if f.doc.Tries > 0 || b.state == closed || b.state == ramping {
			b.openings = f.doc.Tries
		}
		if b.state == closed && f.doc.Why != "" {
			b.last = f.doc.Why
		}
		if f.pause.After(b.asked) {
			b.asked = f.pause
		}
		b.open(max(b.pace()*lead/100, time.Until(b.asked)))
	case !f.doc.Open && was && (b.state == open || b.state == due) && !b.owed.After(time.Now()):
		b.heard = append(b.heard, event{kind: recovers, took: time.Since(b.since)})
		b.ramp()
	}
}

// remember notes what the record says.
func (f *fleet) remember() {
	f.followed, f.tries = f.doc.Open, f.doc.Tries
	f.forAll.Store(f.followed)
}

// calm reports that there is nothing to agree on. In the ramp, too, what others report comes by a ring or by calls that
// fail, as soon as the record has all that this process knows.
func (f *fleet) calm() bool {
	f.mu.Lock()
	told := f.verdict == none && f.reported.IsZero()
	f.mu.Unlock()
	now := f.state()
	return !f.followed && f.old == 0 && (now == closed || now == ramping && told)
}

// claim asks for the right to make the probe. One process at a time has it, until it says how the probe ended, or says
// nothing for a while. Where the record doesn't concern this process, or can't be reached for a while, it probes for
// itself. Otherwise claim returns how long to wait.
func (f *fleet) claim(ctx context.Context) (wait time.Duration, ok bool) {
	if f.state() != due {
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
		f.b.mu.Lock()
		epoch, now, longest := f.b.epoch, f.b.state, f.b.probe.Most
		f.b.mu.Unlock()
		if now != due {
			return 0, true // another call was quicker; the breaker decides
		}
		err := f.look(ctx)
		if err == nil && !f.doc.concerns(f.id) || errors.Is(err, errLeft) {
			if f.follow(epoch); !f.begin(epoch, time.Time{}) {
				continue
			}
			return 0, true
		}
		if err != nil {
			return f.byItself(ctx, epoch, err)
		}
		if !f.followed && f.doc.Open || f.followed && f.doc.Tries > f.tries || f.pause.After(time.Now()) {
			if f.follow(epoch); f.state() != due {
				wait, _ := f.b.rest("")
				return wait, false
			}
		}
		stuck := f.stuck(f.id, 2*longest+f.b.cfg.place())
		next, ok := f.doc.claimed(f.id, stuck || time.Since(f.since) >= probeTTL*7/6)
		if !ok {
			wait := lookEvery - mathrand.N(lookEvery/2)
			f.postpone(wait)
			f.hurry()
			return wait, false
		}
		switch err := f.write(ctx, next); {
		case storage.LostRace(err):
			continue
		case err != nil:
			return f.byItself(ctx, epoch, err)
		}
		if f.remember(); !f.begin(epoch, f.wrote.Add(probeTTL*5/6)) {
			continue
		}
		if stuck {
			f.log().LogAttrs(ctx, slog.LevelWarn, "a probe of another process goes on for too long; this one probes, too", slog.String("guard", f.name))
		}
		return 0, true
	}
	return againSoon, false
}

// byItself lets this process probe for itself when the store has failed for a while.
func (f *fleet) byItself(ctx context.Context, epoch uint64, err error) (wait time.Duration, ok bool) {
	f.note(ctx, err)
	if time.Since(f.failing) >= 2*lookEvery {
		f.begin(epoch, time.Time{})
		return 0, true
	}
	f.postpone(againSoon)
	return againSoon, false
}

// begin notes that a call of this process may be the probe, until till. It reports false if the breaker has changed
// since an epoch, because another call of this process is the probe, or was. The verdict of that one stays.
func (f *fleet) begin(epoch uint64, till time.Time) bool {
	f.mu.Lock()
	f.b.mu.Lock()
	same := f.b.epoch == epoch
	f.b.mu.Unlock()
	if same {
		f.probing, f.right, f.verdict, f.till = true, epoch, none, till
	}
	f.mu.Unlock()
	if same {
		f.hurry()
	}
	return same
}

// free gives up the right to probe, if no call uses it.
func (f *fleet) free() {
	f.mu.Lock()
	f.b.mu.Lock()
	unused := f.probing && f.b.state != probing && f.b.probed != f.right // else its end is about to be told
	f.b.mu.Unlock()
	if unused {
		f.probing, f.verdict = false, freed
	}
	f.mu.Unlock()
	if unused {
		f.hurry()
	}
}

// state is the breaker's.
func (f *fleet) state() state {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	return f.b.state
}

// postpone lets no call through for a while: another process probes.
func (f *fleet) postpone(rest time.Duration) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.b.state == due {
		f.b.shutOff(rest)
	}
}

// note logs the first failure, and the first success after it.
func (f *fleet) note(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, errLeft), (err != nil) == !f.failing.IsZero():
		return
	case err != nil:
		f.failing = time.Now()
		f.log().LogAttrs(ctx, slog.LevelWarn, "can't agree with other processes on a breaker; it goes on by itself", slog.String("guard", f.name), slog.Any("error", err))
	default:
		f.failing = time.Time{}
		f.log().LogAttrs(ctx, slog.LevelInfo, "can agree with other processes on a breaker again", slog.String("guard", f.name))
	}
}
