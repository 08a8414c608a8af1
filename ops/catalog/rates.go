package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	// Window is the time that rates are taken over: more than the time between two reports, so that a worker that runs
	// has one in it.
	Window = 2 * time.Minute

	tolerance = time.Minute // between the clocks of two machines
	mostRows  = 2000
	jitter    = time.Second // by which a report may come late
	leastTime = 0.001       // seconds that a rate is taken over
)

// ReadReports returns the reports of the last two minutes, in the order of time. The clocks of the workers may differ
// from this one by a minute, so there may be some older ones.
func ReadReports(ctx context.Context, s *storage.Store) ([]Report, error) {
	var all []Report
	now := time.Now().UTC()
	from, to := now.Add(-Window-tolerance), now.Add(tolerance)
	left := mostRows
	for hour := from.Truncate(time.Hour); !hour.After(to) && left > 0; hour = hour.Add(time.Hour) {
		r := storage.RowRange{From: from.Format(layout), To: to.Add(time.Second).Format(layout), Limit: left}
		for row, err := range s.Table(table).Query(ctx, partition(hour), r) {
			if err != nil {
				return nil, fmt.Errorf("catalog: read: %w", err)
			}
			left--
			if p, err := decodeReport(row); err == nil {
				all = append(all, p)
			}
		}
	}
	return withoutCovered(all), nil
}

// withoutCovered leaves out the reports that a later one of the same worker covers. Nobody knew that they were stored.
func withoutCovered(all []Report) []Report {
	covered := map[string]float64{} // by worker: the beginning of what is counted
	latest := slices.Clone(all)
	slices.SortStableFunc(latest, func(a, b Report) int { return cmp.Or(cmp.Compare(b.Up, a.Up), b.Time.Compare(a.Time)) })
	kept := latest[:0]
	for _, p := range latest {
		if since, later := covered[p.ID]; later && p.Up > since+inDoubt {
			continue
		}
		covered[p.ID] = p.Up - p.Seconds
		kept = append(kept, p)
	}
	slices.SortStableFunc(kept, func(a, b Report) int { return a.Time.Compare(b.Time) })
	return kept
}

// A Rate is what the workers do with a queue.
type Rate struct {
	Out  float64       // messages a second that leave it: done, poisoned or cancelled
	Over time.Duration // that is counted, of the worker that counted longest
	P99  time.Duration // of the running time of handlers, of the slowest worker; 0 where none ran
}

// Rates returns the rate of each queue that some worker consumes which has not stopped. It counts what each worker has
// done within a time before its latest report, and in any case that report.
func Rates(all []Report, within time.Duration) map[string]Rate {
	latest := map[string]*Report{} // by worker
	for i := range all {
		if p := &all[i]; latest[p.ID] == nil || p.Up > latest[p.ID].Up {
			latest[p.ID] = p
		}
	}
	counted := map[string]float64{}  // seconds, by worker
	begins := func(p *Report) bool { // within the time
		last := latest[p.ID]
		return p == last || p.Up-p.Seconds >= last.Up-(within+jitter).Seconds()
	}
	for i := range all {
		if p := &all[i]; begins(p) {
			counted[p.ID] += p.Seconds
		}
	}
	rates := map[string]Rate{}
	for i := range all {
		p := &all[i]
		if latest[p.ID].Last || !begins(p) || counted[p.ID] < leastTime {
			continue
		}
		for name, q := range p.Queues {
			r := rates[name]
			r.Out += float64(q.Out()) / counted[p.ID]
			r.Over = max(r.Over, time.Duration(counted[p.ID]*float64(time.Second)))
			r.P99 = max(r.P99, time.Duration(q.P99*float64(time.Millisecond)))
			rates[name] = r
		}
	}
	return rates
}
