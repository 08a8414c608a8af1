package operator

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/ops/catalog"
)

const (
	reportsEvery = 10 * time.Second // between two readings: workers publish once a minute
	looksEvery   = time.Second      // between two looks that are remembered
	late         = 2 * time.Second  // that a report may count more than it should
)

// A watch is what top remembers of the looks before.
type watch struct {
	looks   []*look // of the last minutes, the oldest first
	read    time.Time
	reports []catalog.Report
	failed  error // of the last reading
}

// remember keeps a look for later ones.
func (w *watch) remember(l *look) {
	if n := len(w.looks); n > 0 && l.at.Sub(w.looks[n-1].at) < looksEvery {
		return
	}
	old := 0
	for old < len(w.looks) && l.at.Sub(w.looks[old].at) > 2*catalog.Window {
		old++
	}
	w.looks = append(slices.Delete(w.looks, 0, old), l)
}

// readPulses reads what the workers have published. A failure takes the rates away, and nothing else.
func (w *watch) readPulses(ctx context.Context, c *call) {
	if now := time.Now(); w.read.IsZero() || now.Sub(w.read) >= reportsEvery {
		w.read = now
		w.reports, w.failed = catalog.ReadReports(ctx, c.store)
	}
}

// rate fills in the rates of a look. IN is OUT and the growth of the queue over the same time, so it is known as soon
// as top has watched for the time of a report.
func (w *watch) rate(l *look) {
	out := catalog.Rates(w.reports, catalog.Window)
	var lately map[string]catalog.Rate
	if len(w.looks) > 0 {
		watched := l.at.Sub(w.looks[0].at) - late
		lately = catalog.Rates(w.reports, min(watched, catalog.Window))
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
