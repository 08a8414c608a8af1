package ops

import (
	"context"
	"fmt"
	"html/template"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millrace-go/millrace/internal/chart"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/watch"
	"github.com/millrace-go/millrace/storage"
)

// patience is how long a page waits for what it can also be without.
const patience = time.Second

// A pace is what comes and goes a second; nil is unknown.
type pace struct{ in, out *float64 }

// paces watch the queues of the first page while somebody looks at it. The rate of what comes is known after a while of
// looking.
type paces struct {
	flights singleflight.Group
	watch   watch.Watch // of one flight at a time

	mu    sync.Mutex
	told  *told // what was seen last
	rates map[string]pace
}

// see returns the paces of queues that were told just now. A telling that several viewers share is seen once. Where the
// reports of workers are read slowly, a viewer gets the paces of before.
func (x *paces) see(ctx context.Context, s *server, t *told, queues []acts.Queue) map[string]pace {
	rates, seen := x.last(t)
	if seen {
		return rates
	}
	seeing := x.flights.DoChan("", func() (any, error) {
		if rates, seen := x.last(t); seen {
			return rates, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
		defer cancel()
		desk, err := s.reads.current(ctx)
		if err != nil {
			return nil, err
		}
		var rates map[string]pace
		err = contain.Apart(func() error { // a panic here would end the process
			rates = x.watched(ctx, desk, t, queues)
			return nil
		})
		return rates, err
	})
	select {
	case got := <-seeing:
		if fresh, ok := got.Val.(map[string]pace); ok && got.Err == nil {
			return fresh
		}
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return rates
}

// last returns the paces that were seen last, and whether they are those of a telling.
func (x *paces) last(t *told) (rates map[string]pace, seen bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rates, x.told == t
}

// watched shows a telling to the watch. Only a flight calls it.
func (x *paces) watched(ctx context.Context, desk *act.Desk, t *told, queues []acts.Queue) map[string]pace {
	look := &watch.Look{At: t.At}
	for _, q := range queues {
		look.Names = append(look.Names, q.Queue)
		look.Stats = append(look.Stats, storage.Stats{Ready: numberOf(q.Ready), InFlight: numberOf(q.InFlight), Delayed: numberOf(q.Delayed)})
	}
	x.watch.See(ctx, desk, look)
	rates := map[string]pace{}
	for i, r := range look.Rates {
		if r.Out != nil && *r.Out == 0 && r.Change != nil && *r.Change < 0 { // messages leave, and nobody has published that yet
			r.In, r.Out = nil, nil
		}
		rates[look.Names[i]] = pace{r.In, r.Out}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told, x.rates = t, rates
	return rates
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

// alive is how long ago the newest report of a worker that runs may have been published.
const alive = catalog.Window + time.Minute

// drawRates draws the slots, with 0 for those without work. While workers publish, the picture ends with what they have
// published last: nobody knows yet what has happened since.
func drawRates(r acts.Rates, now time.Time) template.HTML {
	out, retried, poisoned := chart.Line{Name: "left a queue"}, chart.Line{Name: "tried again"}, chart.Line{Name: "poisoned"}
	slots := map[time.Time]acts.Slot{}
	for _, s := range r.Slots {
		slots[s.Begin.UTC()] = s
	}
	begin, end := r.Since.UTC().Truncate(catalog.Slot), now
	if !r.Until.IsZero() && now.Sub(r.Until) < alive && r.Until.Before(now) {
		end = r.Until
	}
	sum := acts.Slot{}
	for at := begin; at.Before(now); at = at.Add(catalog.Slot) {
		s := slots[at]
		sum.Out, sum.Retried, sum.Poisoned, sum.P99 = sum.Out+s.Out, sum.Retried+s.Retried, sum.Poisoned+s.Poisoned, max(sum.P99, s.P99)
		over, x := min(catalog.Slot, end.Sub(at)), at.Sub(begin).Hours()
		if over < time.Minute && at.After(begin) { // too short for a rate
			continue
		}
		seconds := max(over, time.Minute).Seconds()
		out.Add(x, s.Out/seconds)
		retried.Add(x, s.Retried/seconds)
		poisoned.Add(x, s.Poisoned/seconds)
	}
	lines := []chart.Line{out}
	if sum.Retried > 0 {
		lines = append(lines, retried)
	}
	if sum.Poisoned > 0 {
		lines = append(lines, poisoned)
	}
	picture := chart.Chart{Title: "Messages a second", X: "UTC, since " + begin.Format("2006-01-02"), Y: "a second", Lines: lines, Ends: true,
		XTick: func(hours float64) string {
			return begin.Add(time.Duration(hours * float64(time.Hour))).Format("15:04")
		}}
	small := picture
	small.Small = true
	text := fmt.Sprintf("Since %s, %s messages have left their queues, attempts that failed: %s, poisoned: %s. The slowest handlers took %s.", begin.Format("2006-01-02 15:04 UTC"),
		chart.Whole(int(sum.Out)), chart.Whole(int(sum.Retried)), chart.Whole(int(sum.Poisoned)), time.Duration(sum.P99*float64(time.Second)).Round(time.Millisecond))
	if !r.Until.IsZero() {
		text += " Workers have published up to " + r.Until.UTC().Format("15:04:05 UTC") + "."
	}
	said := template.HTMLEscapeString(text)
	return template.HTML(`<figure class="chart"><div role="img" aria-label="` + said + `"><div class="broad">` + picture.SVG() + `</div><div class="small">` + small.SVG() + `</div></div><figcaption>` + said + `</figcaption></figure>`)
}
