package leader

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// A meter counts the terms of one name.
type meter struct {
	leading prometheus.Gauge
	terms   prometheus.Counter
}

func newMeter(r prometheus.Registerer, name string) (meter, error) {
	label := []string{"leader"}
	leading, err := metrics.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "millrace", Subsystem: "leader", Name: "leading", Help: "1 while this process leads, else 0.",
	}, label))
	if err != nil {
		return meter{}, err
	}
	terms, err := metrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "millrace", Subsystem: "leader", Name: "terms_total", Help: "Terms that this process has led.",
	}, label))
	if err != nil {
		return meter{}, err
	}
	return meter{leading: leading.WithLabelValues(name), terms: terms.WithLabelValues(name)}, nil
}

// begin counts a term until its context ends, even while the function still drains: another process may lead by then.
func (m meter) begin(term context.Context) {
	m.terms.Inc()
	m.leading.Inc()
	context.AfterFunc(term, m.leading.Dec)
}
