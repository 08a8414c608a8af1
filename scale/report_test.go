package scale

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// write writes the table and the chart of a group.
func write(dir string, g group, results []result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, g.name+".md"), []byte(tableOf(g, results)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, g.name+".svg"), []byte(chartOf(g, results).svg()), 0o644)
}

func tableOf(g group, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWritten by `make scale`; [scale.md](../scale.md) explains it.\n\n", g.title)
	b.WriteString("| run | commands a second | lag p50 | lag p99 | requests a command | refused | writes | races lost | delivered again | price of a million | commands | virtual time | real time |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		p50, p99 := lag(r.p50), lag(r.p99)
		if r.rate == 0 {
			p50, p99 = "backlog", "backlog"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %.2f | %.1f %% | %.2f | %.3f | %.3f | %.1f | %d | %.0f s | %.0f s |\n",
			r.name, r.perSecond, p50, p99, r.requests, 100*r.throttled, r.writes, r.lost, r.again, r.money, r.commands, r.virtual.Seconds(), r.real.Seconds())
	}
	return b.String()
}

func lag(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// chartOf chooses what of a group is to be seen.
func chartOf(g group, results []result) chart {
	c := chart{title: g.title, y: "commands a second"}
	rate, ideal, p50, p99 := line{name: "simulated"}, line{name: "on paper"}, line{name: "p50"}, line{name: "p99"}
	one := line{name: "one at a time"}
	add := func(x float64, r result, paper float64) {
		rate.add(x, r.perSecond)
		ideal.add(x, paper)
	}
	l := documented()
	for _, r := range results {
		switch g.name {
		case "queues", "skew":
			c.x, c.logX = "pairs of queues", true
			add(float64(r.queues), r, min(l.queue/3*float64(r.queues), l.account/asked(r)))
		case "workers", "skew-workers":
			c.x, c.logX = "workers", true
			add(float64(r.workers), r, l.account/asked(results[0]))
		case "waiting":
			c.x, c.logX, c.logY = "workers", true, true
			if r.single {
				one.name = "commands one at a time"
				one.add(float64(r.workers), r.perSecond)
				continue
			}
			// A worker serves its share of the queues, or one, with 32 reactions at a time each.
			slots := 32 * max(float64(r.queues), float64(r.workers))
			add(float64(r.workers), r, min(slots/r.work.Seconds(), l.account/asked(results[0])))
		case "hot":
			if r.workers == results[0].workers && r.zipf == 0 {
				c.x = "share of one key, %"
				rate.add(100*r.hot, r.perSecond)
			}
		case "steady":
			c.x, c.y, c.logY = "commands a second that come in", "lag in seconds", true
			p50.add(r.rate, r.p50.Seconds())
			p99.add(r.rate, r.p99.Seconds())
		case "lag-queues":
			c.x, c.logX, c.y, c.logY = "pairs of queues", true, "lag in seconds", true
			p50.add(float64(r.queues), r.p50.Seconds())
			p99.add(float64(r.queues), r.p99.Seconds())
		case "lag-workers":
			c.x, c.logX, c.y, c.logY = "workers", true, "lag in seconds", true
			if r.single {
				one.name = "p99, one at a time"
				one.add(float64(r.workers), r.p99.Seconds())
				continue
			}
			p50.add(float64(r.workers), r.p50.Seconds())
			p99.add(float64(r.workers), r.p99.Seconds())
		case "single":
			if r.zipf == 0 {
				continue
			}
			c.x, c.logX = "workers, Zipf's keys", true
			if r.single {
				one.add(float64(r.workers), r.perSecond)
			} else {
				rate.name = "all consume"
				rate.add(float64(r.workers), r.perSecond)
			}
		case "accounts":
			c.x = "accounts"
			add(float64(r.accounts), r, float64(r.accounts)*l.account/asked(r))
		case "burst":
			c.x, c.y = "seconds", "thousands"
			waiting, seen := line{name: "messages that wait"}, line{name: "commands in their views"}
			for _, s := range r.samples {
				waiting.add(s.at.Seconds(), float64(s.waiting)/1000)
				seen.add(s.at.Seconds(), float64(s.seen)/1000)
			}
			c.lines = []line{waiting, seen}
		}
	}
	for _, l := range []line{rate, one, ideal, p50, p99} {
		if len(l.x) > 0 {
			c.lines = append(c.lines, l)
		}
	}
	return c
}

// asked is what a command of a backlog asks of the account while it is handled: its own send was before, and refused
// requests are none that the account has done.
func asked(r result) float64 { return r.requests*(1-r.throttled) - 1 }

type line struct {
	name string
	x, y []float64
}

func (l *line) add(x, y float64) { l.x, l.y = append(l.x, x), append(l.y, y) }

type chart struct {
	title, x, y string
	logX, logY  bool
	lines       []line
}

// axis maps values to places on the paper.
type axis struct {
	least, most, from, to float64
	log                   bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.least, a.most
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(max(v, a.least))
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// ticks are round values.
func (a axis) ticks() []float64 {
	var all []float64
	if a.log {
		for v := math.Pow(10, math.Ceil(math.Log10(a.least)-1e-9)); v <= a.most*1.0001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.most-a.least)))
	for (a.most-a.least)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(a.least/step) * step; v <= a.most; v += step {
		all = append(all, v)
	}
	return all
}

// axisOf spans all values.
func axisOf(log bool, from, to float64, values func(line) []float64, lines []line) axis {
	a := axis{least: math.Inf(1), most: math.Inf(-1), from: from, to: to, log: log}
	for _, l := range lines {
		for _, v := range values(l) {
			a.least, a.most = min(a.least, v), max(a.most, v)
		}
	}
	if log {
		a.least = math.Pow(10, math.Floor(math.Log10(max(a.least, 1e-3))))
		a.most = math.Pow(10, math.Ceil(math.Log10(a.most)))
	} else {
		a.least = 0
		a.most *= 1.05
	}
	return a
}

func (c chart) svg() string {
	const width, height, left, right, top, bottom = 720.0, 400.0, 70.0, 20.0, 40.0, 50.0
	x := axisOf(c.logX, left, width-right, func(l line) []float64 { return l.x }, c.lines)
	y := axisOf(c.logY, height-bottom, top, func(l line) []float64 { return l.y }, c.lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", width, height)
	text := func(x, y float64, anchor, s, more string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
	}
	text(left, 22, "start", c.title, ` font-size="14" font-weight="bold"`)
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="#dddddd"/>`+"\n", left, y.at(v), width-right)
		text(left-6, y.at(v)+4, "end", fmt.Sprintf("%g", v), "")
	}
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#dddddd"/>`+"\n", x.at(v), top, height-bottom)
		text(x.at(v), height-bottom+16, "middle", fmt.Sprintf("%g", v), "")
	}
	text(left, height-12, "start", c.x, "")
	text(16, (top+height-bottom)/2, "middle", c.y, fmt.Sprintf(` transform="rotate(-90 16 %.0f)"`, (top+height-bottom)/2))
	for i, l := range c.lines {
		color, dashes := []string{"#1f5fa8", "#c2571a", "#3a7d44"}[i%3], ""
		if l.name == "on paper" {
			dashes = ` stroke-dasharray="6 4"` // it may lie on another
		}
		var path strings.Builder
		for j := range l.x {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], x.at(l.x[j]), y.at(l.y[j]))
			if len(l.x) < 20 {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(l.x[j]), y.at(l.y[j]), color)
			}
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", path.String(), color, dashes)
		text(width-right-170*float64(i), height-12, "end", l.name, fmt.Sprintf(` fill="%s"`, color))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
