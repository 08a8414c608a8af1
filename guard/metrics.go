package guard

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// tally is what a guard counts.
type tally struct {
	calls   [Mine + 1]atomic.Int64 // by kind
	refused [4]atomic.Int64        // by why
	opened  atomic.Int64
}

// Counts are what a guard has counted since it was made.
type Counts struct {
	Failed int64     // calls that failed, or whose outcome is unknown
	Opened int64     // outages: how often the breaker has opened after it was closed
	Alone  time.Time // since when the breaker has been open by this process's own calls, and not for the others; zero: it isn't
}

// Counts returns what was counted so far. When a breaker opens, it takes some seconds until it is known whether it
// opens for the others.
func (g *Guard) Counts() Counts {
	c := Counts{Failed: g.tally.calls[Transient].Load() + g.tally.calls[Unknown].Load(), Opened: g.tally.opened.Load()}
	if v := g.breaker.view(); v.Own && g.fleet.Shared() && !g.fleet.ForAll() {
		c.Alone = v.Opened
	}
	return c
}

// why is why a call was refused.
type why int

const (
	byBreaker why = iota
	byRate
	bySlots
	byAdaptive
)

// collector shows a guard's counts when somebody asks for them.
type collector struct {
	guard                                         *Guard
	calls, refused, opened, open, alone, adaptive *prometheus.Desc
}

// register shows a guard's metrics in a registry, unless it shows those of a guard of that name.
func register(g *Guard, r prometheus.Registerer) {
	if r == nil {
		return
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_guard_"+name, help, labels, prometheus.Labels{"guard": g.name})
	}
	_, err := metrics.Register(r, &collector{
		guard:    g,
		calls:    desc("calls_total", "Calls of the service, by the kind of their end.", "kind"),
		refused:  desc("refused_total", "Calls that were not made, by why: breaker, rate, slots or adaptive.", "why"),
		opened:   desc("opened_total", "Outages: how often the breaker has opened after it was closed."),
		open:     desc("open", "1 while the breaker lets no call through, or only a probe; else 0."),
		alone:    desc("alone", "1 while the breaker is open by this process's own calls, and not for the others; else 0."),
		adaptive: desc("adaptive", "Calls at a time that this process allows itself now, by Config.Adaptive."),
	})
	if err != nil {
		g.logger().Warn("the metrics of a guard can't be registered", "guard", g.name, "error", err)
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.calls, c.refused, c.opened, c.open, c.alone, c.adaptive} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(all chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n *atomic.Int64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	gauge := func(d *prometheus.Desc, is bool) {
		n := 0.0
		if is {
			n = 1
		}
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n)
	}
	counts := &c.guard.tally
	for kind, label := range []string{"done", "permanent", "throttled", "transient", "unknown", "mine"} {
		counter(c.calls, &counts.calls[kind], label)
	}
	for why, label := range []string{"breaker", "rate", "slots", "adaptive"} {
		counter(c.refused, &counts.refused[why], label)
	}
	counter(c.opened, &counts.opened)
	gauge(c.open, c.guard.breaker.view().State.Away())
	gauge(c.alone, !c.guard.Counts().Alone.IsZero())
	if p := c.guard.quota.parts.Load(); p != nil && p.adaptive != nil {
		all <- prometheus.MustNewConstMetric(c.adaptive, prometheus.GaugeValue, float64(p.adaptive.allowed()))
	}
}
