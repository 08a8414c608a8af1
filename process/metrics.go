package process

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Metrics has [Register] count what the plan's instances do, in this process. Each has the label plan:
//
//   - millrace_process_attempts_total, by outcome: runs of agents: ok, failed, refused (see [Refuse]), never
//     (handlers.Poison), unknown, undone, undo_failed
//   - millrace_process_ended_total, by status: instances that have ended
//   - millrace_process_surprises_total, by what: of the instances that have ended, answers that came late or twice, and
//     signals that were unheard
//   - millrace_process_open, by status, and millrace_process_overdue: instances as the last sweep has found them, ten
//     minutes ago at most. Only the process that has swept has these: take their maximum over all processes.
//
// The counts are at least so many: a process that dies between its write and its counting has not counted. A registry
// that is nil counts nothing.
func Metrics(r prometheus.Registerer) Part { return meterPart{r} }

type meterPart struct{ registerer prometheus.Registerer }

func (p meterPart) addTo(d *definition) { d.registerer = p.registerer }

// meters are the metrics of one plan.
type meters struct {
	plan                       string
	attempts, ended, surprises *prometheus.CounterVec
	swept                      *sweptCollector
}

func newMeters(r prometheus.Registerer, plan string) (m *meters, err error) {
	m = &meters{plan: plan}
	total := func(name, label, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "millrace", Subsystem: "process", Name: name + "_total", Help: help}, []string{"plan", label})
		if err == nil {
			v, err = metrics.Register(r, v)
		}
		return v
	}
	m.attempts = total("attempts", "outcome", "Runs of agents: ok, failed, refused, never, unknown, undone, undo_failed.")
	m.ended = total("ended", "status", "Instances that have ended, at least.")
	m.surprises = total("surprises", "what", "Of instances that have ended, at least: answers that came late or twice, signals that were unheard.")
	if err == nil {
		m.swept, err = metrics.Register(r, newSweptCollector())
	}
	return m, err
}

// attempt counts a run of an agent.
func (m *meters) attempt(d flow.Done) {
	outcome := d.Outcome
	switch {
	case d.Undo > 0 && outcome == flow.OK:
		outcome = "undone"
	case d.Undo > 0:
		outcome = "undo_failed"
	}
	m.attempts.WithLabelValues(m.plan, outcome).Inc()
}

// end counts an instance that has ended.
func (m *meters) end(d flow.Instance) {
	m.ended.WithLabelValues(m.plan, string(d.Status)).Inc()
	late, twice, unheard := 0, 0, 0
	for _, ev := range d.Events {
		late, twice = late+ev.Late, twice+len(ev.Twice)
	}
	for _, n := range d.Notes {
		if n.Do == "unheard" {
			unheard++
		}
	}
	for what, n := range map[string]int{"late": late, "twice": twice, "unheard": unheard} {
		m.surprises.WithLabelValues(m.plan, what).Add(float64(n))
	}
}

// found is what a sweep has found.
type found struct {
	at      time.Time
	open    map[Status]int
	overdue int
}

// sweptCollector tells what sweeps have found, as long as no other process may have swept since.
type sweptCollector struct {
	open, overdue *prometheus.Desc

	mu  sync.Mutex
	all map[string]found // by plan; under mu
}

func newSweptCollector() *sweptCollector {
	name := func(s string) string { return prometheus.BuildFQName("millrace", "process", s) }
	return &sweptCollector{
		open:    prometheus.NewDesc(name("open"), "Instances that have not ended, as the last sweep of this process has found them.", []string{"plan", "status"}, nil),
		overdue: prometheus.NewDesc(name("overdue"), "Of these, instances whose alarm is overdue.", []string{"plan"}, nil),
		all:     map[string]found{},
	}
}

func (c *sweptCollector) found(plan string, f found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[plan] = f
}

// Describe is a prometheus.Collector's.
func (c *sweptCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.open
	to <- c.overdue
}

// Collect is a prometheus.Collector's.
func (c *sweptCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for plan, f := range c.all {
		if time.Since(f.at) > sweepEvery+overdue {
			delete(c.all, plan)
			continue
		}
		for _, s := range []Status{Init, InProcess, Undoing, Stuck} {
			to <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(f.open[s]), plan, string(s))
		}
		to <- prometheus.MustNewConstMetric(c.overdue, prometheus.GaugeValue, float64(f.overdue), plan)
	}
}
