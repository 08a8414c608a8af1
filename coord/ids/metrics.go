package ids

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// meters are the metrics of one counter.
type meters struct {
	reservations, lostRaces, waits prometheus.Counter
	left                           *leftCollector
}

func newMeters(r prometheus.Registerer, name string) (m meters, err error) {
	total := func(what, help string) prometheus.Counter {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "millrace", Subsystem: "ids", Name: what + "_total", Help: help}, []string{"counter"})
		if err == nil {
			v, err = metrics.Register(r, v)
		}
		return v.WithLabelValues(name)
	}
	m.reservations = total("reservations", "Ranges reserved.")
	m.lostRaces = total("lost_races", "Reservations that another process's write came before; each is tried again.")
	m.waits = total("waits", "Calls of Next that waited because no number was left.")
	if err == nil {
		m.left, err = metrics.Register(r, newLeftCollector())
	}
	return m, err
}

// A leftCollector tells how many numbers Sequences have in hand. It looks only when it is asked, so that Next has
// nothing to do for it.
type leftCollector struct {
	desc *prometheus.Desc

	mu  sync.Mutex
	all map[*Sequence]struct{} // that are open; under mu
}

func newLeftCollector() *leftCollector {
	return &leftCollector{
		desc: prometheus.NewDesc("millrace_ids_numbers_left", "Numbers reserved and not given out, the range fetched ahead included.", []string{"counter"}, nil),
		all:  map[*Sequence]struct{}{},
	}
}

func (c *leftCollector) add(s *Sequence) { c.mu.Lock(); defer c.mu.Unlock(); c.all[s] = struct{}{} }

func (c *leftCollector) remove(s *Sequence) { c.mu.Lock(); defer c.mu.Unlock(); delete(c.all, s) }

// Describe implements prometheus.Collector.
func (c *leftCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *leftCollector) Collect(to chan<- prometheus.Metric) {
	left := map[string]int64{}
	c.mu.Lock()
	for s := range c.all {
		left[s.name] += s.left()
	}
	c.mu.Unlock()
	for name, n := range left {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), name)
	}
}
