package throttle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
)

// counters are a rate limiter's metrics.
type counters struct {
	accepted, repeats, degraded prometheus.Counter
	refused                     *prometheus.CounterVec // by quota
}

func newCounters(r prometheus.Registerer, limiter string) (counters, error) {
	count := func(name, help string) (*prometheus.CounterVec, error) {
		return metrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "millrace", Subsystem: "throttle", Name: name, Help: help}, []string{"limiter"}))
	}
	accepted, err := count("accepted_total", "Requests that a rate limiter let through.")
	if err != nil {
		return counters{}, err
	}
	repeats, err := count("repeats_total", "Requests that a rate limiter let through without asking for a quota, because their ID was accepted before.")
	if err != nil {
		return counters{}, err
	}
	degraded, err := count("degraded_total", "Requests that a rate limiter let through although they were over a quota, to be served with less.")
	if err != nil {
		return counters{}, err
	}
	refused, err := metrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "millrace", Subsystem: "throttle", Name: "refused_total", Help: "Requests that a rate limiter refused, for each quota that was used up. The quota backlog stands for a queue that is too long.",
	}, []string{"limiter", "quota"}))
	if err != nil {
		return counters{}, err
	}
	refused, err = refused.CurryWith(prometheus.Labels{"limiter": limiter})
	return counters{accepted: accepted.WithLabelValues(limiter), repeats: repeats.WithLabelValues(limiter), degraded: degraded.WithLabelValues(limiter), refused: refused}, err
}

// refuse counts a refusal.
func (c counters) refuse(x *Refusal) {
	if x.violated == 0 {
		c.refused.WithLabelValues(backlogName).Inc()
		return
	}
	for i := range x.claim.plan.rules {
		if x.violated>>i&1 != 0 {
			x.claim.plan.rules[i].count()
		}
	}
}
