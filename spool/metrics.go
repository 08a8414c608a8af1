package spool

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the registered metrics of a spool.
type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector
}

// newMetrics registers the metrics of a spool, all or none: its state, and the numbers of messages that were kept and
// forwarded. Without a registerer there are no metrics.
func newMetrics(r prometheus.Registerer, state func() State, kept, forwarded func() int64) (*metrics, error) {
	m := &metrics{registerer: r}
	if r == nil {
		return m, nil
	}
	var faults []error
	register := func(c prometheus.Collector) {
		if err := r.Register(c); err != nil {
			faults = append(faults, fmt.Errorf("spool: metrics: is another spool open with the same registry? %w", err))
			return
		}
		m.collectors = append(m.collectors, c)
	}
	gauge := func(name, help string, value func(State) float64) {
		register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "millrace", Subsystem: "spool", Name: name, Help: help},
			func() float64 { return value(state()) }))
	}
	total := func(name, help string, value func() int64) {
		register(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "millrace", Subsystem: "spool", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	gauge("waiting_messages", "Messages in the spool that wait for the store.", func(st State) float64 { return float64(st.Waiting) })
	gauge("refused_messages", "Messages in the spool that were set aside because they can't be sent.", func(st State) float64 { return float64(st.Refused) })
	gauge("bytes", "Bytes of the messages in the spool.", func(st State) float64 { return float64(st.Bytes) })
	gauge("oldest_seconds", "How long the oldest message in the spool has waited.", func(st State) float64 {
		if st.Oldest.IsZero() {
			return 0
		}
		return max(0, time.Since(st.Oldest).Seconds())
	})
	gauge("store_away", "1 while the store is known to be away.", func(st State) float64 {
		if st.Away.IsZero() {
			return 0
		}
		return 1
	})
	gauge("failed", "1 while the file of the spool can't be used.", func(st State) float64 {
		if st.Failed == nil {
			return 0
		}
		return 1
	})
	total("kept_total", "Messages that were kept in the spool.", kept)
	total("forwarded_total", "Messages of the spool that the store has taken.", forwarded)
	if faults != nil {
		m.unregister()
		return nil, faults[0]
	}
	return m, nil
}

// unregister ends the metrics.
func (m *metrics) unregister() {
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}
