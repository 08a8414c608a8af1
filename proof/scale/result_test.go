package scale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/cost"
)

// madeUp are the prices of docs/operating.md. They are invented, and only make scenarios comparable.
const madeUp = `{"currency": "EUR", "per10000": {
	"queue read": 0.01, "queue write": 0.01,
	"blob read": 0.01, "blob list": 0.1, "blob write": 0.1, "blob delete": 0,
	"table read": 0.01, "table list": 0.01, "table write": 0.01, "table delete": 0.01, "table batch": 0.02}}`

// result is what a run has measured.
type result struct {
	scenario
	perSecond float64       // commands, while a tenth to nine tenths of them reached their views
	p50, p99  time.Duration // from the send to the view
	requests  float64       // for each command
	throttled float64       // share of the requests
	money     float64       // for a million commands
	writes    float64       // documents written for each command, both kinds
	lost      float64       // writes that lost a race, for each command
	again     float64       // repeated deliveries for each command
	refused   int64         // sends that failed after all the driver's attempts
	virtual   time.Duration
	real      time.Duration
	samples   []sample
	says      []string
	detail    detail
}

// detail has the requests for each command, by kind.
type detail map[string]float64

func (d detail) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(d)) {
		all = append(all, fmt.Sprintf("%s %.3f", what, d[what]))
	}
	return strings.Join(all, ", ")
}

func (w *world) result() result {
	n := float64(w.commands)
	r := result{scenario: w.scenario, refused: w.refused.Load(), samples: w.samples, says: w.says.texts(), detail: detail{}}
	ends, lags := make([]int64, w.commands), make([]int64, w.commands)
	for i := range ends {
		ends[i] = w.progress.seen[i].Load()
		lags[i] = ends[i] - w.progress.sent[i].Load()
	}
	slices.Sort(ends)
	slices.Sort(lags)
	from, to := w.commands/10, w.commands*9/10
	r.perSecond = float64(to-from) / max(time.Duration(ends[to]-ends[from]), 1).Seconds()
	r.p50, r.p99 = time.Duration(lags[w.commands/2]), time.Duration(lags[w.commands*99/100])
	r.virtual = time.Duration(ends[w.commands-1])
	prices, err := cost.ReadPrices(strings.NewReader(madeUp))
	if err != nil {
		w.t.Fatal(err)
	}
	var count, throttled int64
	for _, s := range w.services {
		for _, x := range s.requests() {
			count += x.Count
			throttled += x.Throttled
			r.money += float64(x.Count) / 10_000 * prices.Per10000[x.Class] / n * 1e6
			r.detail[x.Kind+" "+x.Op] += float64(x.Count) / n
			if x.Kind == "blob" && x.Op == "put" {
				r.writes += float64(x.Count-x.Throttled) / n
			}
		}
		r.lost += float64(s.lost) / n
		r.again += float64(s.again) / n
	}
	r.requests, r.throttled = float64(count)/n, float64(throttled)/float64(count)
	return r
}

func (r result) String() string {
	return fmt.Sprintf("%-28s %6.0f/s p50 %-8v p99 %-8v req %.2f thr %.1f%% writes %.2f lost %.2f again %.3f refused %d money %.2f virtual %v real %v",
		r.name, r.perSecond, r.p50.Round(time.Millisecond), r.p99.Round(time.Millisecond), r.requests, 100*r.throttled, r.writes, r.lost, r.again, r.refused, r.money,
		r.virtual.Round(100*time.Millisecond), r.real.Round(100*time.Millisecond))
}
