package lanes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	handBackTime = 2 * time.Second // for messages that are handed back together
	handBacks    = 16              // of them at a time
)

// A stash holds messages that came while a lane was swept and that nobody had asked for. They are received first. Those
// that nobody has received in half of their visibility are handed back: the consumer may be paused.
type stash struct {
	roster *roster
	unhad  func(driver.Delivery) (body []byte, delay time.Duration, ok bool)

	mu    sync.Mutex
	list  []stashed
	timer *time.Timer // hands back; nil: there is nothing
}

type stashed struct {
	lane *lane
	d    driver.Delivery // with the receipt of the inner store
	till time.Time       // when it is handed back
}

// keep adds messages to the stash.
func (s *stash) keep(some ...stashed) {
	if len(some) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, some...)
	s.alarm()
}

// alarm starts the timer for the message that is handed back first. The mutex of the stash is held.
func (s *stash) alarm() {
	if s.timer != nil || len(s.list) == 0 {
		return
	}
	first := slices.MinFunc(s.list, func(a, b stashed) int { return a.till.Compare(b.till) })
	s.timer = time.AfterFunc(time.Until(first.till), func() {
		now := time.Now()
		s.mu.Lock()
		s.timer = nil
		var late []stashed
		s.list = slices.DeleteFunc(s.list, func(x stashed) bool {
			if x.till.After(now) {
				return false
			}
			late = append(late, x)
			return true
		})
		s.alarm()
		s.mu.Unlock()
		s.giveBack(late)
	})
}

// pop takes a message out, the oldest one that the limit allows.
func (s *stash) pop(limit *limit) (x stashed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(x stashed) bool { return limit.allows(x.lane.turns) })
	if i < 0 {
		return stashed{}, false
	}
	x = s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	return x, true
}

// empty hands back all that is in the stash.
func (s *stash) empty() {
	s.mu.Lock()
	all := s.list
	s.list = nil
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	s.giveBack(all)
}

// giveBack hands back messages that nobody has had, as far as the store answers in time. Their deliveries don't count.
func (s *stash) giveBack(some []stashed) {
	if len(some) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handBackTime)
	defer cancel()
	var all sync.WaitGroup
	slots := make(chan struct{}, handBacks)
	for _, x := range some {
		slots <- struct{}{}
		all.Go(func() {
			s.giveBackOne(ctx, x)
			<-slots
		})
	}
	all.Wait()
}

// giveBackOne writes into a message that its delivery doesn't count. One that can't take that is handed back as it is.
func (s *stash) giveBackOne(ctx context.Context, x stashed) {
	defer s.roster.heat(x.lane)
	if body, delay, ok := s.unhad(x.d); ok && len(body) <= s.roster.props.MaxMessage {
		_ = x.lane.q.Rewrite(ctx, x.d.Receipt, body, delay) // after an error the message comes back when its visibility ends
		return
	}
	_, _ = x.lane.q.Extend(ctx, x.d.Receipt, 0)
}
