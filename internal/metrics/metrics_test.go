package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func counter(name string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "It counts."}, []string{"lease"})
}

func TestRegister(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	first, err := Register(r, counter("a"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Register(r, counter("a"))
	if err != nil || again != first {
		t.Errorf("got %p, %v; want %p", again, err, first)
	}
	if _, err := Register(nil, counter("a")); err != nil {
		t.Errorf("without a registry: %v", err)
	}
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "a", Help: "It counts."})
	if _, err := Register(r, other); err == nil {
		t.Error("a gauge took the name of a counter")
	}
}
