// Package watch looks at the queues of a store again and again, and tells their numbers and what comes and goes a
// second. The screen top shows both.
//
//	var w watch.Watch
//	for range time.Tick(2 * time.Second) {
//		look, err := w.Look(ctx, desk) // at the desk of package act
//		…
//	}
//
// Workers publish once a minute what they have done. Out of a queue is known from there. In is Out and the growth of
// the queue over the same time, so In is known as soon as a Watch has looked for as long as a report covers. An
// unknown number is nil.
//
// # Laws
//
//   - A look changes nothing in the store.
//   - The memory of a Watch is bounded, however often it looks.
//   - Reports that can't be read take the rates away, and nothing else.
package watch

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

const (
	reportsEvery = 10 * time.Second // between two readings: workers publish once a minute
	looksEvery   = time.Second      // between two looks that are remembered
	late         = 2 * time.Second  // that a report may count more than it should
)

// A Look is what a round of a Watch has seen. Its slices are by queue.
type Look struct {
	At       time.Time
	Names    []string
	Stats    []storage.Stats
	Poisoned map[string]int64
	Consumed []string // by whom
	Rates    []Rates
	Note     string // why rates are unknown
}

// Rates are the rates of a queue. nil is an unknown number.
type Rates struct {
	In, Out, Change *float64      // messages per second
	P99             time.Duration // of handlers; 0 is unknown
}

// A Watch looks at the queues again and again. It remembers the looks before, because a rate needs two of them. Its
// zero value has seen nothing. One goroutine may use it.
type Watch struct {
	looks   []*Look // of the last minutes, the oldest first
	last    *Look
	read    time.Time
	reports []catalog.Report
	failed  error // of the last reading
}

// Look reads the queues, the poison queues, the reports of workers, and the catalog, which may have new programs.
func (w *Watch) Look(ctx context.Context, d *act.Desk) (*Look, error) {
	if w.last != nil {
		if err := d.Look(ctx); err != nil {
			return nil, err
		}
	}
	names, poisoned, err := look.Queues(ctx, d)
	if err != nil {
		return nil, err
	}
	stats, err := look.Stats(ctx, d, names)
	if err != nil {
		return nil, err
	}
	l := &Look{At: time.Now(), Names: names, Stats: stats, Poisoned: poisoned}
	w.See(ctx, d, l)
	return l, nil
}

// See takes a look that the caller has made: its time, names and numbers. It fills in who consumes the queues, and
// their rates.
func (w *Watch) See(ctx context.Context, d *act.Desk, l *Look) {
	w.readReports(ctx, d)
	w.rate(l)
	for i, name := range l.Names {
		l.Consumed = append(l.Consumed, look.ConsumedBy(d, name))
		if change, known := l.growthSince(w.last, i); known {
			l.Rates[i].Change = &change
		}
	}
	w.remember(l)
	w.last = l
}

// growthSince returns the growth of a queue per second since a look before, if it is known.
func (l *Look) growthSince(before *Look, i int) (perSecond float64, known bool) {
	if before == nil || !l.At.After(before.At) {
		return 0, false
	}
	j := slices.Index(before.Names, l.Names[i])
	if j < 0 || l.Stats[i].Ready < 0 || before.Stats[j].Ready < 0 {
		return 0, false
	}
	return float64(held(l.Stats[i])-held(before.Stats[j])) / l.At.Sub(before.At).Seconds(), true
}

// held is the number of messages in a queue, as far as it is known.
func held(st storage.Stats) int64 { return st.Ready + max(0, st.InFlight) + max(0, st.Delayed) }

// remember keeps a look for later ones.
func (w *Watch) remember(l *Look) {
	if n := len(w.looks); n > 0 && l.At.Sub(w.looks[n-1].At) < looksEvery {
		return
	}
	old := 0
	for old < len(w.looks) && l.At.Sub(w.looks[old].At) > 2*catalog.Window {
		old++
	}
	w.looks = append(slices.Delete(w.looks, 0, old), l)
}

// readReports reads what the workers have published. A failure takes the rates away, and nothing else.
func (w *Watch) readReports(ctx context.Context, d *act.Desk) {
	if now := time.Now(); w.read.IsZero() || now.Sub(w.read) >= reportsEvery {
		w.read = now
		w.reports, w.failed = catalog.ReadReports(ctx, d.Store)
	}
}

// rate fills in the rates of a look. IN is OUT and the growth of the queue over the same time, so it is known as soon
// as top has watched for the time of a report.
func (w *Watch) rate(l *Look) {
	out := catalog.Rates(w.reports, catalog.Window)
	var lately map[string]catalog.Rate
	if len(w.looks) > 0 {
		watched := l.At.Sub(w.looks[0].At) - late
		lately = catalog.Rates(w.reports, min(watched, catalog.Window))
	}
	l.Rates = make([]Rates, len(l.Names))
	for i, name := range l.Names {
		r := &l.Rates[i]
		if o, known := out[name]; known {
			r.Out, r.P99 = &o.Out, o.P99
		}
		if now, known := lately[name]; known {
			if growth, known := w.growth(l, i, now.Over); known {
				in := max(0, now.Out+growth)
				r.In = &in
			}
		}
	}
	switch {
	case w.failed != nil:
		l.Note = "what the workers publish can't be read, so IN and OUT are unknown: " + w.failed.Error()
	case len(out) == 0:
		l.Note = "no worker publishes what it does, so IN and OUT are unknown"
	}
}

// growth returns the growth of a queue per second over a time, or a little more, if it is known.
func (w *Watch) growth(l *Look, i int, over time.Duration) (perSecond float64, known bool) {
	for _, before := range slices.Backward(w.looks) {
		if l.At.Sub(before.At) >= over {
			return l.growthSince(before, i)
		}
	}
	return 0, false
}
