package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-go/millrace/storage/inbox"
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
	receives *semaphore.Weighted // each receive holds 1 until its messages are dispatched; the suspect holds all

	mu    sync.Mutex
	one   *message // the suspect in hand
	since time.Time
	open  func() // lets receive go on; nil while receive isn't held up
	timer *time.Timer
}

const allReceives = 1 << 30

func newSuspects() *suspects { return &suspects{receives: semaphore.NewWeighted(allReceives)} }

// receiving waits until messages may be received. The caller must call received once they are dispatched.
func (s *suspects) receiving(ctx context.Context) error { return s.receives.Acquire(ctx, 1) }

func (s *suspects) received() { s.receives.Release(1) }

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
	if err := s.receives.Acquire(ctx, allReceives); err != nil {
		return err
	}
	open := sync.OnceFunc(func() { s.receives.Release(allReceives) })
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

// keepApart lets one suspect go on and hands the others back.
func (c *consumer) keepApart(ctx context.Context, ms []*message) {
	c.single.Store(len(ms) > 0) // other suspects were handed back and come again
	for i, m := range ms {
		m.suspect = true
		entered, since := c.suspects.enter(m)
		if !entered {
			// One suspect comes after the other, but not again and again while one takes long.
			delay := max(inbox.FirstLook, min(since, retryMost))
			each(ms[i:], func(m *message) {
				if m.end() {
					c.handBack(ctx, m, delay, nil)
				}
			})
			return
		}
		c.log.LogAttrs(ctx, slog.LevelWarn, "a message has not been heard of again and again; it is kept apart from others of its like",
			slog.String("id", m.envelope.ID), slog.String("kind", string(m.envelope.Kind)), slog.Int("deliveries", m.deliveries))
		c.pushTask(task{m: m})
	}
}
