package worker

import (
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
)

// starts says whether handlers of a queue may start, and notes their starts and ends.
type starts struct {
	setup
	room   *room
	hung   *hung
	closed atomic.Bool // the hand is closed
}

// stopped reports that no more handlers are started, because the hand is closed or because too many handlers hang.
func (s *starts) stopped() bool { return s.closed.Load() || s.hung.full.Load() }

// started notes that a message's handler starts.
func (s *starts) started(m *message) time.Time {
	now := time.Now()
	m.began.Store(&now)
	m.beginSpan(&s.setup, now)
	m.delivery.Count(m.deliveries - m.envelope.Hops)
	s.stats.running.Inc()
	s.stats.pickup.Observe(max(0, now.Sub(later(m.sentAt, m.envelope.Due))).Seconds())
	s.room.waited(now.Sub(m.received))
	return now
}

// ended notes that handlers have ended, or were given up.
func (s *starts) ended(began time.Time, outcomes []handling.Outcome) {
	s.stats.running.Sub(float64(len(outcomes)))
	took := time.Since(began)
	s.stats.seconds.Observe(took.Seconds())
	s.stats.times[timeStep(took)].Add(1)
	for _, o := range outcomes {
		s.hung.count(o.Err)
	}
}
