package settings

import (
	"context"
	"fmt"
	"sync/atomic"
)

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

// A checkup asks the program's own code how this node fares in roll-outs.
type checkup struct {
	cfg     *Config
	probing atomic.Bool // Health or Work is being called
	trial   trial       // the last one
	ailing  int64       // the candidate before which this node wasn't well, nor since; 0: none
}

// fares calls Work, and a canary's Health, also just before it becomes one. It returns what Work has counted, also if
// Health fails; nil: nothing. While a call of an earlier look goes on, there is no other one.
func (x *checkup) fares(ctx context.Context, canary bool) (*Work, error) {
	if x.probing.Swap(true) {
		return nil, fmt.Errorf("Health has not returned within %v, and not since", x.cfg.Patience)
	}
	var counted atomic.Pointer[Work]
	_, err := within(ctx, x.cfg.Patience, "Health", func(ctx context.Context) (none struct{}, err error) {
		defer x.probing.Store(false)
		if x.cfg.Work != nil {
			w := x.cfg.Work()
			if !w.valid() {
				return none, fmt.Errorf("Work returned %+v; want numbers from 0 to %d", w, int64(maxWork))
			}
			counted.Store(&w)
		}
		if canary && x.cfg.Health != nil {
			err = x.cfg.Health(ctx)
		}
		return none, err
	})
	return counted.Load(), err
}

// began notes that this node has become a canary, and whether it was ill before.
func (x *checkup) began(version int64, ill error) {
	if x.ailing = 0; ill != nil {
		x.ailing = version
	}
}

// report tells how this node fares while a candidate is rolled out. wrong is why it can't run the candidate.
func (x *checkup) report(ctx context.Context, version int64, canary bool, wrong error) *Health {
	work, err := x.fares(ctx, canary)
	return x.health(version, canary, work, err, wrong)
}

// health is what this node says of itself, by what its code has counted, and by the error of that code.
func (x *checkup) health(version int64, canary bool, work *Work, err, wrong error) *Health {
	h := &Health{Version: version}
	if err == nil && canary {
		x.ailing = 0
	}
	switch {
	case wrong != nil:
		h.Ill = clean("it can't run it: "+wrong.Error(), maxReason)
	case err != nil && canary && x.ailing != version:
		h.Ill = clean(err.Error(), maxReason)
	case x.cfg.Work != nil && (canary || work != nil): // also of a canary that is as ill as before
		before, since := x.trial.count(version, canary, work)
		h.Before, h.Since = &before, &since
	}
	return h
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
