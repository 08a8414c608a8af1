package settings

import (
	"fmt"
	"math"
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
