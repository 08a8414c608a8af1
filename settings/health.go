package settings

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

const (
	maxWork    = 1 << 50
	leastFails = 5   // fewer failures of the canaries prove nothing
	doubt      = 4.0 // standard errors; it is large, because each look is another test
	apart      = 1.2 // a failure rate that is less above the other is of no account
)

// Work is what a process has done since it started: calls, messages or the like.
type Work struct {
	Done   int64 `json:"done"`
	Failed int64 `json:"failed"` // these are not in Done
}

func (w Work) calls() int64 { return w.Done + w.Failed }

func (w Work) rate() float64 { return float64(w.Failed) / float64(w.calls()) }

func (w Work) plus(x Work) Work { return Work{w.Done + x.Done, w.Failed + x.Failed} }

// since returns what was done after x. Numbers that have shrunk count as 0.
func (w Work) since(x Work) Work { return Work{max(0, w.Done-x.Done), max(0, w.Failed-x.Failed)} }

func (w Work) valid() bool {
	return w.Done >= 0 && w.Failed >= 0 && w.Done <= maxWork && w.Failed <= maxWork
}

// worse reports that w fails clearly more often than x: a test of two proportions.
func (w Work) worse(x Work) bool {
	n, m := float64(w.calls()), float64(x.calls())
	if n == 0 || m == 0 || w.Failed < leastFails {
		return false
	}
	p := w.plus(x).rate()
	return w.rate() > apart*x.rate() && w.rate()-x.rate() > doubt*math.Sqrt(p*(1-p)*(1/n+1/m))
}

// Health is what a node says of itself while a change is rolled out.
type Health struct {
	Version int64  `json:"version"`          // of the change
	Ill     string `json:"ill,omitempty"`    // why it is not well with that version; empty: it is, or it doesn't run it
	Before  *Work  `json:"before,omitempty"` // since its start, until it ran that version or saw the roll-out
	Since   *Work  `json:"since,omitempty"`  // since then
}

// A trial is what a node remembers of a roll-out.
type trial struct {
	version int64
	canary  bool
	mark    Work // when it began
	since   Work // then, up to the last count
}

// fares calls Work, and a canary's Health, also just before it becomes one. It returns what Work has counted, also if
// Health fails; nil: nothing. While a call of an earlier look goes on, there is no other one.
func fares(ctx context.Context, cfg *Config, probing *atomic.Bool, canary bool) (*Work, error) {
	if probing.Swap(true) {
		return nil, fmt.Errorf("Health has not returned within %v, and not since", cfg.Patience)
	}
	var counted atomic.Pointer[Work]
	_, err := within(ctx, cfg.Patience, "Health", func(ctx context.Context) (none struct{}, err error) {
		defer probing.Store(false)
		if cfg.Work != nil {
			w := cfg.Work()
			if !w.valid() {
				return none, fmt.Errorf("Work returned %+v; want numbers from 0 to %d", w, int64(maxWork))
			}
			counted.Store(&w)
		}
		if canary && cfg.Health != nil {
			err = cfg.Health(ctx)
		}
		return none, err
	})
	return counted.Load(), err
}

// examine asks this node's code how it fares while a candidate is rolled out. wrong is why it can't run it.
func (s *follower[T]) examine(ctx context.Context, c candidate, wrong error) {
	canary := s.running.version == c.Version
	h := &Health{Version: c.Version}
	work, err := fares(ctx, &s.cfg, s.probing, canary)
	if err == nil && canary {
		s.ailing = 0
	}
	switch {
	case wrong != nil:
		h.Ill = clean("it can't run it: "+wrong.Error(), maxReason)
	case err != nil && canary && s.ailing != c.Version:
		h.Ill = clean(err.Error(), maxReason)
	case s.cfg.Work != nil && (canary || work != nil): // also of a canary that is as ill as before
		before, since := s.trial.count(c.Version, canary, work)
		h.Before, h.Since = &before, &since
	}
	s.health = h
}

// count returns what a node has counted in a roll-out, and before it. Without a new count, that is what is known: so a
// canary that can't count is one with too few calls.
func (t *trial) count(version int64, canary bool, work *Work) (before, since Work) {
	same := t.version == version && t.canary == canary
	switch {
	case work == nil && !same:
		return Work{}, Work{}
	case work != nil && !same:
		*t = trial{version: version, canary: canary, mark: *work}
	case work != nil:
		t.since = work.since(t.mark)
	}
	return t.mark, t.since
}

// An assessment is what the rows of the nodes make of a roll-out.
type assessment struct {
	ill      []Refusal // why it must end; none: it need not
	holds    []string  // why its bake doesn't count
	canaries int       // nodes that are alive and shall run the candidate
	until    time.Time // the canaries are known to have been well up to then
	counting bool      // they count their work
	since    Work      // of the canaries
}

// assess tells how a roll-out fares, by the last look at the rows. Nothing in a row that depends on a clock matters.
func (w *watch) assess(c candidate) (a assessment) {
	var before, others Work
	for _, s := range w.sorted() {
		n, alive := s.Row.Node, s.Alive
		v, answered := n.says(c.Version)
		name := clean(n.Name, maxBy)
		reports := n.Health != nil && n.Health.Version == c.Version
		canary := answered && v.Yes && c.includes(n.ID)
		switch {
		case canary && !alive:
			a.ill = append(a.ill, Refusal{name, "it has died with it, or just before: its row has been the same for three polls"})
		case !alive:
		case !answered:
			a.holds = append(a.holds, name+" has not answered")
		case !v.Yes:
			a.ill = append(a.ill, Refusal{name, clean(v.Why, maxReason)})
		case !canary && reports && n.Health.Since != nil:
			others = others.plus(*n.Health.Since)
		case !canary:
		case reports && n.Health.Ill != "":
			a.ill = append(a.ill, Refusal{name, clean(n.Health.Ill, maxReason)})
		default:
			if a.canaries++; !reports || n.Version != c.Version {
				a.holds = append(a.holds, name+" doesn't run it yet")
				continue
			}
			if a.canaries == 1 || s.After.Before(a.until) {
				a.until = s.After
			}
			if h := n.Health; h.Since != nil && h.Before != nil {
				a.counting, a.since, before = true, a.since.plus(*h.Since), before.plus(*h.Before)
			}
		}
	}
	if why := compare(a.since, others, before, c.stage().calls()); why != "" {
		a.ill = append(a.ill, Refusal{"the nodes that run it", why})
	}
	return a
}

// compare tells why the canaries' work is bad, empty if it is not. It needs as many calls as the stage does of what it
// compares with. Where there is nothing to compare with, half of the calls may fail.
func compare(canaries, others, before Work, least int64) string {
	switch {
	case others.calls() >= least && canaries.worse(others):
		return fmt.Sprintf("%s failed, and %s of the others", shareOf(canaries), shareOf(others))
	case before.calls() >= least && canaries.worse(before):
		return fmt.Sprintf("%s failed, and %s before", shareOf(canaries), shareOf(before))
	case others.calls() < least && before.calls() < least && canaries.calls() >= least && canaries.rate() > 0.5:
		return shareOf(canaries) + " failed"
	}
	return ""
}

func shareOf(w Work) string { return fmt.Sprintf("%d of %d calls", w.Failed, w.calls()) }
