package lease

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// meters count what happens to the leases of one label. Nil meters count nothing.
type meters struct {
	had, renewed, lost, broken, handed, fenced prometheus.Counter
	waited                                     prometheus.Observer
}

func newMeters(r prometheus.Registerer, label string) (*meters, error) {
	var faults []error
	counter := func(name, help string) prometheus.Counter {
		c, err := metrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "millrace", Subsystem: "lease", Name: name, Help: help,
		}, []string{"lease"}))
		faults = append(faults, err)
		return c.WithLabelValues(label)
	}
	m := &meters{
		had:     counter("acquired_total", "Acquisitions by this process."),
		renewed: counter("renewed_total", "Renewals by this process."),
		lost:    counter("lost_total", "Leases that ended without a release, broken ones included."),
		broken:  counter("broken_total", "Leases that an operator broke."),
		handed:  counter("handed_over_total", "Leases that this process handed over."),
		fenced:  counter("fenced_total", "Writes of documents that were refused for a smaller fence than the document's."),
	}
	waited, err := metrics.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "millrace", Subsystem: "lease", Name: "wait_seconds",
		Help:    "Time from the beginning of an acquisition until the lease was had.",
		Buckets: prometheus.ExponentialBuckets(0.005, 4, 10),
	}, []string{"lease"}))
	m.waited = waited.WithLabelValues(label)
	return m, errors.Join(append(faults, err)...)
}

func (m *meters) acquired(waited time.Duration) {
	if m != nil {
		m.had.Inc()
		m.waited.Observe(waited.Seconds())
	}
}

func (m *meters) renewal() {
	if m != nil {
		m.renewed.Inc()
	}
}

func (m *meters) loss(broken bool) {
	if m == nil {
		return
	}
	m.lost.Inc()
	if broken {
		m.broken.Inc()
	}
}

func (m *meters) handOver() {
	if m != nil {
		m.handed.Inc()
	}
}

func (m *meters) refusal() {
	if m != nil {
		m.fenced.Inc()
	}
}
