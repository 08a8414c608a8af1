package worker

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
)

// metrics holds the metrics of all queues. docs/operating.md explains them.
type metrics struct {
	outcomes, receiveErrors, stuck, old, turns *prometheus.CounterVec
	running, consuming, abandoned              *prometheus.GaugeVec
	pickup, seconds, lag                       *prometheus.HistogramVec
}

// queueMetrics holds the metrics of one queue, looked up once, and what [Worker.Counts] returns of it.
type queueMetrics struct {
	done, retried, handedBack, poisoned, cancelled counter
	unavailable, lost, receiveErrors, stuck, old   prometheus.Counter
	running, consuming, abandoned                  prometheus.Gauge
	pickup, seconds, lag                           prometheus.Observer

	turns   *prometheus.CounterVec // of this queue, by what
	inHand  atomic.Int64
	times   times
	kinds   map[channel.Kind]*kindCounter // of those that have a handler; it doesn't change
	unknown kindCounter                   // of all other kinds
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	queue := []string{"queue"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "millrace", Name: name, Help: help}, append(queue, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "millrace", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0002, 4, 10), // 0.2 ms to 52 s
		}, queue)
	}
	m := &metrics{
		outcomes:      counter("deliveries_total", "Deliveries by how they ended: done, retried, handed_back, poisoned, unavailable, lost, cancelled.", "outcome"),
		receiveErrors: counter("receive_errors_total", "Failed attempts to receive."),
		stuck:         counter("stuck_reports_total", "Reports of handlers that run longer than StuckAfter."),
		old:           counter("old_handbacks_total", "Messages that a handler handed back by Later more than a day after they were sent, or due."),
		turns:         counter("turns_total", "Turns of keys: taken, lost; messages that wait for theirs: held, behind, early, halted; and what was noticed: gap, passed, skipped, halts.", "what"),
		running:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millrace", Name: "running", Help: "Messages being handled."}, queue),
		consuming:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millrace", Name: "consuming", Help: "1 while the worker takes messages off the queue, 0 while it is paused or stands by for others. During a hand-over more workers than asked for may be at 1, or none."}, queue),
		abandoned:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millrace", Name: "abandoned", Help: "Handlers that were given up because they didn't end, and run on."}, queue),
		pickup:        histogram("pickup_seconds", "From the store's taking of a message, or its due time, to the start of its handler."),
		seconds:       histogram("handle_seconds", "Running time of handlers, or of folds of one document."),
		lag:           histogram("lag_seconds", "From the making of a message, or its due time, to the end of its handling; of a view's queue, how far the view is behind."),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.outcomes, m.receiveErrors, m.stuck, m.old, m.turns, m.running, m.consuming, m.abandoned, m.pickup, m.seconds, m.lag} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) queue(q string, all []*handling.Handler) *queueMetrics {
	outcome := func(o string) prometheus.Counter { return m.outcomes.WithLabelValues(q, o) }
	counted := func(o string) counter { return counter{Counter: outcome(o)} }
	kinds := map[channel.Kind]*kindCounter{}
	for _, h := range all {
		kinds[h.Kind()] = new(kindCounter)
	}
	return &queueMetrics{
		done: counted("done"), retried: counted("retried"), handedBack: counted("handed_back"), poisoned: counted("poisoned"), cancelled: counted("cancelled"),
		unavailable: outcome("unavailable"), lost: outcome("lost"), kinds: kinds,
		receiveErrors: m.receiveErrors.WithLabelValues(q), stuck: m.stuck.WithLabelValues(q), old: m.old.WithLabelValues(q), running: m.running.WithLabelValues(q),
		turns:     m.turns.MustCurryWith(prometheus.Labels{"queue": q}),
		consuming: m.consuming.WithLabelValues(q), abandoned: m.abandoned.WithLabelValues(q),
		pickup: m.pickup.WithLabelValues(q), seconds: m.seconds.WithLabelValues(q), lag: m.lag.WithLabelValues(q),
	}
}

// turn counts what happens to the turns of keys; see handling.TurnNote.
func (q *queueMetrics) turn(what string) { q.turns.WithLabelValues(what).Inc() }
