package schedule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	housemetrics "github.com/millrace-go/millrace/internal/metrics"
)

// result is what becomes of a due time.
type result string

const (
	sent    result = "sent"
	skipped result = "skipped" // missed, or while the run before went on, or while paused
	failed  result = "failed"  // the program could not make its command
)

// metrics are the metrics of one schedule.
type metrics struct {
	ticks map[result]prometheus.Counter
	late  prometheus.Observer
}

func newMetrics(r prometheus.Registerer, name string) (metrics, error) {
	ticks, err := housemetrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "millrace", Subsystem: "schedule", Name: "ticks_total",
		Help: "Ticks by result: sent, skipped, failed. Due times that were skipped one after another count as one.",
	}, []string{"schedule", "result"}))
	if err != nil {
		return metrics{}, err
	}
	late, err := housemetrics.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "millrace", Subsystem: "schedule", Name: "late_seconds",
		Help: "From the due time to the sending of the command.", Buckets: prometheus.ExponentialBuckets(0.05, 6, 9), // 50 ms to a day
	}, []string{"schedule"}))
	if err != nil {
		return metrics{}, err
	}
	m := metrics{ticks: map[result]prometheus.Counter{}, late: late.WithLabelValues(name)}
	for _, r := range []result{sent, skipped, failed} {
		m.ticks[r] = ticks.WithLabelValues(name, string(r))
	}
	return m, nil
}

func (m metrics) count(r result) { m.ticks[r].Inc() }

func (m metrics) observe(late time.Duration) { m.late.Observe(max(0, late.Seconds())) }
