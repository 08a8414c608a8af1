package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/chart"
)

// write writes the table and the chart of a group.
func write(dir string, g group, results []result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, g.name+".md"), []byte(tableOf(g, results)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, g.name+".svg"), []byte(chartOf(g, results).SVG()), 0o644)
}

func tableOf(g group, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWritten by `make scale`; [scale.md](../../scale.md) explains it.\n\n", g.title)
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

// chartOf chooses the chart of a group.
func chartOf(g group, results []result) chart.Chart {
	c := chart.Chart{Title: g.title, Y: "commands a second"}
	rate, ideal, p50, p99 := chart.Line{Name: "simulated"}, chart.Line{Name: "on paper", Dashed: true}, chart.Line{Name: "p50"}, chart.Line{Name: "p99"}
	one := chart.Line{Name: "one at a time"}
	add := func(x float64, r result, paper float64) {
		rate.Add(x, r.perSecond)
		ideal.Add(x, paper)
	}
	l := documented()
	for _, r := range results {
		switch g.name {
		case "queues", "skew":
			c.X, c.LogX = "pairs of queues", true
			add(float64(r.queues), r, min(l.queue/3*float64(r.queues), l.account/asked(r)))
		case "workers", "skew-workers":
			c.X, c.LogX = "workers", true
			add(float64(r.workers), r, l.account/asked(results[0]))
		case "waiting":
			c.X, c.LogX, c.LogY = "workers", true, true
			if r.single {
				one.Name = "commands one at a time"
				one.Add(float64(r.workers), r.perSecond)
				continue
			}
			// A worker serves its share of the queues, or one, with 32 reactions at a time for each.
			slots := 32 * max(float64(r.queues), float64(r.workers))
			add(float64(r.workers), r, min(slots/r.work.Seconds(), l.account/asked(results[0])))
		case "hot":
			if r.workers == results[0].workers && r.zipf == 0 {
				c.X = "share of one key, %"
				rate.Add(100*r.hot, r.perSecond)
			}
		case "steady":
			c.X, c.Y, c.LogY = "commands a second that come in", "lag in seconds", true
			p50.Add(r.rate, r.p50.Seconds())
			p99.Add(r.rate, r.p99.Seconds())
		case "lag-queues":
			c.X, c.LogX, c.Y, c.LogY = "pairs of queues", true, "lag in seconds", true
			p50.Add(float64(r.queues), r.p50.Seconds())
			p99.Add(float64(r.queues), r.p99.Seconds())
		case "lag-workers":
			c.X, c.LogX, c.Y, c.LogY = "workers", true, "lag in seconds", true
			if r.single {
				one.Name = "p99, one at a time"
				one.Add(float64(r.workers), r.p99.Seconds())
				continue
			}
			p50.Add(float64(r.workers), r.p50.Seconds())
			p99.Add(float64(r.workers), r.p99.Seconds())
		case "single":
			if r.zipf == 0 {
				continue
			}
			c.X, c.LogX = "workers, Zipf's keys", true
			if r.single {
				one.Add(float64(r.workers), r.perSecond)
			} else {
				rate.Name = "all consume"
				rate.Add(float64(r.workers), r.perSecond)
			}
		case "accounts":
			c.X = "accounts"
			add(float64(r.accounts), r, float64(r.accounts)*l.account/asked(r))
		case "burst":
			c.X, c.Y = "seconds", "thousands"
			waiting, seen := chart.Line{Name: "messages that wait"}, chart.Line{Name: "commands in their views"}
			for _, s := range r.samples {
				waiting.Add(s.at.Seconds(), float64(s.waiting)/1000)
				seen.Add(s.at.Seconds(), float64(s.seen)/1000)
			}
			c.Lines = []chart.Line{waiting, seen}
		}
	}
	for _, l := range []chart.Line{rate, one, ideal, p50, p99} {
		if len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// asked is the number of the account's requests for each command of a backlog while it is handled. The command's own
// send was before, and refused requests don't count.
func asked(r result) float64 { return r.requests*(1-r.throttled) - 1 }
