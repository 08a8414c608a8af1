package settings

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// A meter tells the state of a node at each scrape.
type meter struct {
	state                        func() State
	age, version, staged, faulty *prometheus.Desc
}

func newMeter(name string, state func() State) *meter {
	desc := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_settings_"+metric, help, nil, prometheus.Labels{"settings": name})
	}
	return &meter{
		state:   state,
		age:     desc("age_seconds", "Time since the store last confirmed what this process runs."),
		version: desc("version", "The version that this process runs; 0: the defaults."),
		staged:  desc("staged", "1 while this process runs a version that is being rolled out, else 0."),
		faulty:  desc("faulty", "1 while this process can't run the version in force, else 0."),
	}
}

// Describe implements [prometheus.Collector].
func (m *meter) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.age, m.version, m.staged, m.faulty} {
		all <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *meter) Collect(all chan<- prometheus.Metric) {
	st := m.state()
	flag := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	for d, v := range map[*prometheus.Desc]float64{m.age: st.Age.Seconds(), m.version: float64(st.Version), m.staged: flag(st.Staged), m.faulty: flag(st.Fault != "")} {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}

// measure begins the metrics of a node. Two nodes of one name in a process, and one registry, have those of the first.
func measure(with prometheus.Registerer, name string, state func() State) (end func(), err error) {
	if with == nil {
		return func() {}, nil
	}
	mine := newMeter(name, state)
	if m, err := metrics.Register(with, mine); err != nil || m != mine {
		return func() {}, err
	}
	return func() { with.Unregister(mine) }, nil
}
