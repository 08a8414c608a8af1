package host

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/storage"
)

// A LiveGuard has the numbers of a guard; see guard.Config. One that isn't given leaves the program's own in force, as
// it was when the program called [Settings]. A program that changes the numbers later by Set has no use for these,
// because the last call holds. Times are text, such as 10s.
type LiveGuard struct {
	// Rate is how many calls a second all processes together begin, and Slots how many are under way. 0 is no limit.
	Rate  *float64 `json:"rate,omitzero"`
	Slots *int     `json:"slots,omitzero"`

	// Adaptive bounds the calls of each process at a time by what the service can usefully do. A Most of 0 is no limit.
	Adaptive struct {
		Least int  `json:"least,omitzero"`
		Most  *int `json:"most,omitzero"`
	} `json:"adaptive,omitzero"`

	// Break is when the breaker opens. A change counts calls anew.
	Break struct {
		Rate     float64 `json:"rate,omitzero"`     // the part of calls that must fail, up to 1
		Of       int     `json:"of,omitzero"`       // calls at least
		Distinct int     `json:"distinct,omitzero"` // messages that must fail
		Window   string  `json:"window,omitzero"`   // within this time
	} `json:"break,omitzero"`

	// Probe is when an open breaker lets a call through, from the next time on that it opens.
	Probe struct {
		First string `json:"first,omitzero"`
		Most  string `json:"most,omitzero"`
	} `json:"probe,omitzero"`
}

// over returns the numbers that hold, by those of the program itself.
func (x LiveGuard) over(own guard.Limits) (guard.Limits, error) {
	if x.Rate != nil {
		own.Rate = guard.Rate(*x.Rate)
	}
	if x.Slots != nil {
		own.Slots = *x.Slots
	}
	if x.Adaptive.Most != nil {
		own.Adaptive.Most = *x.Adaptive.Most
		if *x.Adaptive.Most == 0 {
			own.Adaptive.Least = 0
		}
	}
	if x.Adaptive.Least != 0 {
		own.Adaptive.Least = x.Adaptive.Least
	}
	if x.Break.Rate != 0 {
		own.Break.Rate = x.Break.Rate
	}
	if x.Break.Of != 0 {
		own.Break.Of = x.Break.Of
	}
	if x.Break.Distinct != 0 {
		own.Break.Distinct = x.Break.Distinct
	}
	var faults []error
	for _, t := range []struct {
		name, text string
		to         *time.Duration
	}{{"break.window", x.Break.Window, &own.Break.Window}, {"probe.first", x.Probe.First, &own.Probe.First}, {"probe.most", x.Probe.Most, &own.Probe.Most}} {
		if t.text == "" {
			continue
		}
		d, err := time.ParseDuration(t.text)
		if err != nil || d <= 0 {
			faults = append(faults, fmt.Errorf("%s is %s; want a time such as 10s", t.name, storage.Quote(t.text)))
			continue
		}
		*t.to = d
	}
	if err := errors.Join(faults...); err != nil {
		return own, err
	}
	if own.Probe.First > own.Probe.Most {
		return own, fmt.Errorf("probe.first is %v and probe.most %v; want first to be the shorter one", own.Probe.First, own.Probe.Most)
	}
	return own, own.Check()
}

// A tuned is a guard whose numbers the settings may replace.
type tuned struct {
	*guard.Guard
	own  guard.Limits // the program's
	last guard.Limits // that were put into force
}

// guards are those of a program, by name. Several may have one name.
type guards map[string][]*tuned

func byName(byQueue map[string]*guard.Guard) guards {
	all, seen := guards{}, map[*guard.Guard]bool{nil: true} // a nil one is reported when the worker is made
	for _, g := range byQueue {
		if seen[g] {
			continue
		}
		seen[g] = true
		name := g.Status().Name
		all[name] = append(all[name], &tuned{Guard: g, own: g.Limits(), last: g.Limits()})
	}
	return all
}

// fault says what is wrong with the settings of a guard.
func (all guards) fault(name string, x LiveGuard) error {
	if len(all) == 0 {
		return fmt.Errorf("guards: the program has no guard %s, and no other", storage.Quote(name))
	}
	if len(all[name]) == 0 {
		return fmt.Errorf("guards: the program has no guard %s; want one of %s", storage.Quote(name), strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	for _, g := range all[name] {
		if _, err := x.over(g.own); err != nil {
			return fmt.Errorf("guards.%s: %w", name, err)
		}
	}
	return nil
}

// put puts the settings of guards into force, which have no fault.
func (all guards) put(now map[string]LiveGuard, log *slog.Logger) {
	for name, its := range all {
		for _, g := range its {
			next, err := now[name].over(g.own)
			if err == nil && next == g.last {
				continue
			}
			if err == nil {
				err = g.Set(next)
			}
			if err != nil {
				log.Error("a guard keeps its numbers", "guard", name, "error", err)
				continue
			}
			g.last = next
			log.Info("the numbers of a guard change", "guard", name, "rate", next.Rate, "slots", next.Slots,
				slog.Group("break", "rate", next.Break.Rate, "of", next.Break.Of, "distinct", next.Break.Distinct, "window", next.Break.Window.String()),
				slog.Group("probe", "first", next.Probe.First.String(), "most", next.Probe.Most.String()),
				slog.Group("adaptive", "least", next.Adaptive.Least, "most", next.Adaptive.Most))
		}
	}
}
