package operator

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/pulse"
)

const (
	pulsesEvery = 10 * time.Second // between two readings: workers publish once a minute
	looksEvery  = time.Second      // between two looks that are remembered
	late        = 2 * time.Second  // that a pulse may count more than it should
)

// A watch is what top remembers of the looks before.
type watch struct {
	looks  []*look // of the last minutes, the oldest first
	read   time.Time
	pulses []pulse.Pulse
	failed error // of the last reading
}

// remember keeps a look for later ones.
func (w *watch) remember(l *look) {
	if n := len(w.looks); n > 0 && l.at.Sub(w.looks[n-1].at) < looksEvery {
		return
	}
	old := 0
	for old < len(w.looks) && l.at.Sub(w.looks[old].at) > 2*pulse.Window {
		old++
	}
	w.looks = append(slices.Delete(w.looks, 0, old), l)
}

// readPulses reads what the workers have published. A failure takes the rates away, and nothing else.
func (w *watch) readPulses(ctx context.Context, c *call) {
	if now := time.Now(); w.read.IsZero() || now.Sub(w.read) >= pulsesEvery {
		w.read = now
		w.pulses, w.failed = pulse.Read(ctx, c.store)
	}
}

// rate fills in the rates of a look. IN is OUT and the growth of the queue over the same time, so it is known as soon
// as top has watched for the time of a pulse.
func (w *watch) rate(l *look) {
	out := pulse.Rates(w.pulses, pulse.Window)
	var lately map[string]pulse.Rate
	if len(w.looks) > 0 {
		watched := l.at.Sub(w.looks[0].at) - late
		lately = pulse.Rates(w.pulses, min(watched, pulse.Window))
	}
	l.rates = make([]rates, len(l.names))
	for i, name := range l.names {
		r := &l.rates[i]
		if o, known := out[name]; known {
			r.out, r.p99 = &o.Out, o.P99
		}
		if now, known := lately[name]; known {
			if growth, known := w.growth(l, i, now.Over); known {
				in := max(0, now.Out+growth)
				r.in = &in
			}
		}
	}
	switch {
	case w.failed != nil:
		l.note = "what the workers publish can't be read, so IN and OUT are unknown: " + w.failed.Error()
	case len(out) == 0:
		l.note = "no worker publishes what it does, so IN and OUT are unknown"
	}
}

// growth returns the growth of a queue per second over a time, or a little more, if it is known.
func (w *watch) growth(l *look, i int, over time.Duration) (perSecond float64, known bool) {
	for _, before := range slices.Backward(w.looks) {
		if l.at.Sub(before.at) >= over {
			return l.growthSince(before, i)
		}
	}
	return 0, false
}
