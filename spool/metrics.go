package spool

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// register registers the metrics, all or none, until Close.
func (s *Spool) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var faults []error
	register := func(c prometheus.Collector) {
		if err := r.Register(c); err != nil {
			faults = append(faults, fmt.Errorf("spool: metrics: is another spool open with the same registry? %w", err))
			return
		}
		s.metrics = append(s.metrics, c)
	}
	gauge := func(name, help string, value func(State) float64) {
		register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "millrace", Subsystem: "spool", Name: name, Help: help},
			func() float64 { return value(s.State()) }))
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
	total("kept_total", "Messages that were kept in the spool.", s.kept.Load)
	total("forwarded_total", "Messages of the spool that the store has taken.", s.forwarded.Load)
	if faults != nil {
		s.unregister()
		return faults[0]
	}
	return nil
}

// unregister ends the metrics.
func (s *Spool) unregister() {
	for _, c := range s.metrics {
		s.cfg.Metrics.Unregister(c)
	}
}
