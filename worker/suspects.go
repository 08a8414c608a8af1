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

// suspects keep a killer's neighbours out of the poison queue. A worker has one suspect in hand, of all its queues.
// Others are handed back, which is no silent delivery, before it runs; and while it runs nothing is received, but what is
// handed over as it is sent, so that no other one is in hand when it kills. Messages that are no suspects go on beside it: it
// may take them along until they are suspects too, and then no more. A handler that hangs is no reason to stand still: after
// StuckAfter messages are received again, other suspects among them handed back.
type suspects struct {
	receives *semaphore.Weighted // held by each receive until its messages are sorted; whole, by the suspect

	mu    sync.Mutex
	one   *message // that is in hand
	since time.Time
	open  func() // lets receive go on; nil while it isn't held up
	timer *time.Timer
}

const allReceives = 1 << 30

func newSuspects() *suspects { return &suspects{receives: semaphore.NewWeighted(allReceives)} }

// receiving waits until messages may be received. received must follow, once they are sorted.
func (s *suspects) receiving(ctx context.Context) error { return s.receives.Acquire(ctx, 1) }

func (s *suspects) received() { s.receives.Release(1) }

// enter makes a message the suspect in hand, or tells how long the one that is has been it.
func (s *suspects) enter(m *message) (entered bool, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one != nil {
		return false, time.Since(s.since)
	}
	s.one, s.since = m, time.Now()
	return true, 0
}

// alone waits until all that has been received is sorted, and stops receiving for most or until m leaves.
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
	if s.one != m { // abandoned meanwhile
		open()
		return nil
	}
	s.open, s.timer = open, time.AfterFunc(most, open)
	return nil
}

// leave ends what enter began, if it did.
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
	c.single.Store(len(ms) > 0) // those handed back come again
	for i, m := range ms {
		m.suspect = true
		entered, since := c.suspects.enter(m)
		if !entered {
			// One comes after the other, but not again and again while one takes long.
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
		c.push(task{m: m})
	}
}
