package worker

import (
	"context"
	"sync"
	"time"
)

// suspectAfter is how many silent deliveries make a message a suspect: one that may kill its worker.
const suspectAfter = 3

// suspects keep a message that kills its worker from taking others with it into the poison queue.
//
//   - A worker has one suspect in hand, of all its queues. It hands other suspects back before that one runs. A
//     hand-back is no silent delivery.
//   - While the suspect runs the worker receives only messages that the store hands over as they are sent. So no other
//     suspect is in hand when it kills the worker.
//   - Messages that are no suspects run beside it. If it kills the worker, that is a silent delivery for them, too,
//     until they are suspects themselves.
//   - A handler that hangs doesn't stop the worker: after StuckAfter it receives messages again, and hands back other
//     suspects among them.
type suspects struct {
	receives gate // each receive passes it until its messages are dispatched; the suspect is alone

	mu    sync.Mutex
	one   *message // the suspect in hand
	since time.Time
	open  func() // lets receive go on; nil while receive isn't held up
	timer *time.Timer
}

// receiving waits until messages may be received. The caller must call received once they are dispatched.
func (s *suspects) receiving(ctx context.Context) error { return s.receives.pass(ctx) }

func (s *suspects) received() { s.receives.passed() }

// enter makes a message the suspect in hand, or returns for how long another message has been it.
func (s *suspects) enter(m *message) (entered bool, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one != nil {
		return false, time.Since(s.since)
	}
	s.one, s.since = m, time.Now()
	return true, 0
}

// alone waits until all received messages are dispatched. Then it stops receiving, for most or until m leaves.
func (s *suspects) alone(ctx context.Context, m *message, most time.Duration) error {
	s.mu.Lock()
	done := s.one != m || s.open != nil
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.receives.close(ctx); err != nil {
		return err
	}
	open := sync.OnceFunc(s.receives.open)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one != m { // m was abandoned meanwhile
		open()
		return nil
	}
	s.open, s.timer = open, time.AfterFunc(most, open)
	return nil
}

// leave ends what enter began for m, if anything.
func (s *suspects) leave(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one != m {
		return
	}
	if s.open != nil {
		s.timer.Stop()
		s.open()
	}
	s.one, s.open, s.timer = nil, nil, nil
}
