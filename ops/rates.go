package ops

import (
	"context"
	"fmt"
	"html/template"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/chart"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/watch"
	"github.com/millrace-go/millrace/storage"
)

// mostPaces is how many pages have a watch of their own.
const mostPaces = 100

// A pace is what comes and goes a second; nil is unknown.
type pace struct{ in, out *float64 }

// paces watch the queues of the pages that somebody looks at. The rate of what comes is known after a while of looking.
type paces struct {
	mu  sync.Mutex
	all map[string]*watched
}

// A watched page is a watch, with what it has seen last.
type watched struct {
	watch watch.Watch
	told  *told
	rates map[string]pace
}

// see returns the paces of queues that were told just now. A telling that several viewers share is seen once.
func (x *paces) see(ctx context.Context, s *server, page string, t *told, queues []acts.Queue) map[string]pace {
	desk, err := s.reads.current(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil || len(x.all) > mostPaces {
		x.all = map[string]*watched{}
	}
	w := x.all[page]
	if w == nil {
		w = new(watched)
		x.all[page] = w
	}
	if w.told == t || err != nil {
		return w.rates
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
	defer cancel()
	look := &watch.Look{At: t.At}
	for _, q := range queues {
		look.Names = append(look.Names, q.Queue)
		look.Stats = append(look.Stats, storage.Stats{Ready: numberOf(q.Ready), InFlight: numberOf(q.InFlight), Delayed: numberOf(q.Delayed)})
	}
	w.watch.See(ctx, desk, look)
	w.told, w.rates = t, map[string]pace{}
	for i, r := range look.Rates {
		w.rates[look.Names[i]] = pace{r.In, r.Out}
	}
	return w.rates
}

// numberOf is a number as a store tells it; -1 is unknown.
func numberOf(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// chart draws what workers have done in the last 24 hours, if that was told; else it is empty.
func (t *told) chart() template.HTML {
	if t == nil {
		return ""
	}
	for _, x := range t.Objects {
		if r, ok := x.(acts.Rates); ok && len(r.Slots) > 0 {
			return drawRates(r, t.At)
		}
	}
	return ""
}

// drawRates draws the slots, with 0 for those without work. The last slot has begun just now, so its rate is over less
// time.
func drawRates(r acts.Rates, now time.Time) template.HTML {
	out, retried, poisoned := chart.Line{Name: "left a queue"}, chart.Line{Name: "tried again"}, chart.Line{Name: "poisoned"}
	slots := map[time.Time]acts.Slot{}
	for _, s := range r.Slots {
		slots[s.Begin.UTC()] = s
	}
	begin := r.Since.UTC().Truncate(catalog.Slot)
	sum := acts.Slot{}
	for at := begin; at.Before(now); at = at.Add(catalog.Slot) {
		s := slots[at]
		over, x := min(catalog.Slot, max(now.Sub(at), time.Minute)).Seconds(), at.Sub(begin).Hours()
		out.Add(x, s.Out/over)
		retried.Add(x, s.Retried/over)
		poisoned.Add(x, s.Poisoned/over)
		sum.Out, sum.Retried, sum.Poisoned, sum.P99 = sum.Out+s.Out, sum.Retried+s.Retried, sum.Poisoned+s.Poisoned, max(sum.P99, s.P99)
	}
	lines := []chart.Line{out}
	if sum.Retried > 0 {
		lines = append(lines, retried)
	}
	if sum.Poisoned > 0 {
		lines = append(lines, poisoned)
	}
	picture := chart.Chart{Title: "Messages a second", X: "hours since " + begin.Format("2006-01-02 15:04 UTC"), Y: "a second", Lines: lines}.SVG()
	text := fmt.Sprintf("Since %s, %s messages have left their queues, attempts that failed: %s, poisoned: %s. The slowest handlers took %s.", begin.Format("2006-01-02 15:04 UTC"),
		chart.Whole(int(sum.Out)), chart.Whole(int(sum.Retried)), chart.Whole(int(sum.Poisoned)), time.Duration(sum.P99*float64(time.Second)).Round(time.Millisecond))
	return template.HTML(`<figure class="chart"><div role="img" aria-label="` + template.HTMLEscapeString(text) + `">` + picture + `</div><figcaption>` + template.HTMLEscapeString(text) + `</figcaption></figure>`)
}
