package doorbell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Through returns a store that keeps all data in inner, and whose rings and publications go through bell: another
// store, which rings by itself, and in which nothing is stored. It is for processes between which no UDP passes, but
// which all reach a Redis server (redis.Open with bell=yes).
//
//	store, err := doorbell.Through(inner, bell)
//
// A send, a unit of work that sends, a hand-back and a rewrite ring after they have succeeded, and so does the end of
// a delay, from the process that has set it. A ring wakes all processes that wait for the queue, and each of them
// looks once. The bell never fails or delays a call of the store, except Subscribe and Publish, which are the bell's
// own. While the bell is away, what waits is found by polls.
//
// Closing the result closes both stores. Through makes no request. An error means that bell doesn't ring, or that inner
// rings by itself; both stores stay open.
func Through(inner, bell *storage.Store) (*storage.Store, error) {
	switch {
	case inner.Rings():
		return nil, wrongBell(fmt.Errorf("%w: the store rings by itself", storage.ErrInvalid))
	case !bell.Rings():
		return nil, wrongBell(fmt.Errorf("%w: the bell is a store that doesn't ring", storage.ErrInvalid))
	}
	s := newThrough(inner)
	s.take(bell)
	return storage.New(s), nil
}

// ThroughLater is Through with a bell that need not be reachable yet. It calls open at once. While open fails with
// [storage.ErrUnavailable], it calls open again and again, with a warning in the log at first, and until then nothing
// rings, Subscribe and Publish fail with ErrUnavailable, and what waits is found by polls. Any other error of open is
// returned, and inner stays open.
func ThroughLater(ctx context.Context, inner *storage.Store, open func(context.Context) (*storage.Store, error), log *slog.Logger) (*storage.Store, error) {
	bell, err := open(ctx)
	if err == nil {
		s, err := Through(inner, bell)
		if err != nil {
			return nil, errors.Join(err, bell.Close())
		}
		return s, nil
	}
	if !errors.Is(err, storage.ErrUnavailable) || ctx.Err() != nil {
		return nil, err
	}
	if inner.Rings() {
		return nil, wrongBell(fmt.Errorf("%w: the store rings by itself", storage.ErrInvalid))
	}
	log.LogAttrs(ctx, slog.LevelWarn, "doorbell: the bell can't be reached; until it can, idle workers find messages by polling", slog.Any("error", err))
	s := newThrough(inner)
	s.all.Go(func() { s.reach(open, log) })
	return storage.New(s), nil
}

func wrongBell(err error) error {
	return &storage.Error{Op: "open", Resource: "doorbell", Err: err}
}

// through implements driver.Store: data in one store, and rings in another.
type through struct {
	driver.Store
	bells *bells

	ctx  context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup
	once sync.Once

	reached chan struct{}  // closed when bell is set
	bell    *storage.Store // nil until it is reached
}

func newThrough(inner *storage.Store) *through {
	s := &through{Store: inner.Driver(), bells: newBells(clock{time.Now()}), reached: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.all.Go(func() { s.bells.run(s.ctx, s.ringBell) })
	return s
}

// take begins to ring by a bell.
func (s *through) take(bell *storage.Store) {
	s.bell = bell
	close(s.reached)
}

// listener returns the bell's, or nil while the bell isn't reached.
func (s *through) listener() driver.Listener {
	select {
	case <-s.reached:
		return s.bell.Driver().Listener()
	default:
		return nil
	}
}

// ringBell rings one queue. Rings of the time before the bell is reached are for nobody.
func (s *through) ringBell(x due) {
	if l := s.listener(); l != nil {
		l.Ring(x.queue)
	}
}

const (
	firstReach, longestReach = 100 * time.Millisecond, 10 * time.Second

	// reachLimit is how long one opening of the bell may take.
	reachLimit = 10 * time.Second
)

// reach opens the bell again and again.
func (s *through) reach(open func(context.Context) (*storage.Store, error), log *slog.Logger) {
	for pause := firstReach; ; pause = min(2*pause, longestReach) {
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, reachLimit)
		bell, err := open(ctx)
		cancel()
		switch {
		case err == nil && bell.Rings():
			s.take(bell)
			log.LogAttrs(s.ctx, slog.LevelInfo, "doorbell: the bell is reached")
			return
		case err == nil:
			_ = bell.Close() // it was of no use
			log.LogAttrs(s.ctx, slog.LevelError, "doorbell: the bell is a store that doesn't ring; idle workers find messages by polling")
			return
		case s.ctx.Err() == nil && !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			log.LogAttrs(s.ctx, slog.LevelError, "doorbell: the bell can't be opened; idle workers find messages by polling", slog.Any("error", err))
			return
		}
	}
}

// Queue implements driver.Store. A ring wakes all, so a backlog needs no further ring.
func (s *through) Queue(name string) driver.Queue {
	return &queue{Queue: s.Store.Queue(name), name: name, bells: s.bells, most: math.MaxInt}
}

// Committer implements driver.Store.
func (s *through) Committer() driver.Committer {
	inner := s.Store.Committer()
	if inner == nil {
		return nil
	}
	return &committer{inner, s.bells}
}

// Listener implements driver.Store.
func (s *through) Listener() driver.Listener { return throughListener{s} }

// A throughListener implements driver.Listener.
type throughListener struct{ s *through }

// Listen implements driver.Listener. It claims nothing: a message is no message of the bell's.
func (l throughListener) Listen(topic string) driver.Subscription {
	if inner := l.s.listener(); inner != nil {
		return unclaimed{inner.Listen(topic)}
	}
	x := &lateSubscription{rings: make(chan struct{}, 1), closed: make(chan struct{})}
	go x.forward(l.s, topic)
	return x
}

// Ring implements driver.Listener.
func (l throughListener) Ring(topic string) { l.s.bells.ringAll(topic) }

var errNoBell = fmt.Errorf("%w: the bell isn't reached yet", driver.ErrUnavailable)

// Subscribe implements driver.Listener.
func (l throughListener) Subscribe(ctx context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	if inner := l.s.listener(); inner != nil {
		return inner.Subscribe(ctx, topic, receiver)
	}
	return nil, errNoBell
}

// Publish implements driver.Listener.
func (l throughListener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	if inner := l.s.listener(); inner != nil {
		return inner.Publish(ctx, topic, data, one)
	}
	return 0, errNoBell
}

// unclaimed is a subscription of the bell that claims nothing.
type unclaimed struct{ driver.Subscription }

// Claim implements driver.Subscription.
func (unclaimed) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}

// A lateSubscription implements driver.Subscription. It began before the bell was reached.
type lateSubscription struct {
	rings  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// forward waits for the bell, and then passes its rings on.
func (x *lateSubscription) forward(s *through, topic string) {
	select {
	case <-s.reached:
	case <-x.closed:
		return
	case <-s.ctx.Done():
		return
	}
	inner := s.bell.Driver().Listener().Listen(topic)
	defer inner.Close()
	for {
		select {
		case <-inner.Rings():
		case <-x.closed:
			return
		case <-s.ctx.Done():
			return
		}
		select {
		case x.rings <- struct{}{}:
		default:
		}
	}
}

func (x *lateSubscription) Rings() <-chan struct{} { return x.rings }
func (x *lateSubscription) Close()                 { x.once.Do(func() { close(x.closed) }) }

// Claim implements driver.Subscription.
func (x *lateSubscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}

// Close rings what is due, and closes both stores.
func (s *through) Close() error {
	var err error
	s.once.Do(func() {
		s.bells.close()
		s.end()
		s.all.Wait()
		if s.listener() != nil {
			err = s.bell.Close()
		}
	})
	return errors.Join(s.Store.Close(), err)
}
