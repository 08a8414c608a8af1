package flow

import (
	"fmt"
	"time"
)

// sleepStep waits for a time.
type sleepStep struct{ baseStep }

const lastYear = 9999 // that a document can hold

func (k sleepStep) begin() {
	s, f := k.s, k.s.fold
	var until time.Time
	err := f.user(func(state any) error { until = s.n.Until(state, f.now); return nil })
	f.moved = true
	switch {
	case err != nil:
		s.halt(haltBegin, err.Error())
	case until.Year() > lastYear:
		s.halt(haltBegin, fmt.Sprintf("it is to sleep until the year %d; want at most %d", until.Year(), lastYear))
	case !until.After(f.now):
		s.take(nil, nil)
	default:
		s.ev.Timeout = until
	}
}

// late ends the sleep.
func (k sleepStep) late(string) {
	k.s.fold.moved = true
	k.s.take(nil, nil)
}

// waitOn sleeps until the time that it was to sleep until.
func (k sleepStep) waitOn() {
	until := k.s.ev.Timeout
	k.s.reopen()
	k.s.ev.Timeout = until
}
