package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/handling/usercode"
)

const (
	openTime   = time.Minute           // for the opening of a limiter
	lateTime   = time.Second           // that the worker waits for a limiter that was opened too late and leaves
	answerTime = 10 * time.Second      // after which a limiter that doesn't answer is reported
	askAgain   = time.Second           // before a limiter that failed is asked again
	askEvery   = 10 * time.Millisecond // a limiter that changes more often is asked more seldom than that
	leaveTime  = 30 * time.Second      // for the limiters of a consumer that stops
)

// Limiters combines limiters. A consumer is paused while one of them pauses it. The least of the limits holds that they
// name.
func Limiters(open ...OpenLimiter) OpenLimiter {
	return func(ctx context.Context, c Consumer) (Limiter, error) { return openBoard(ctx, c, open...) }
}

// board keeps the limits that the limiters of a consumer gave last, and combines them. Limiters are the user's code. So
// each is asked on a goroutine of its own, and no caller of the board waits for them.
type board struct {
	ctx      context.Context // of the consumer
	log      *slog.Logger
	limiters []Limiter
	peers    []*peers      // by limiter
	outer    func() Limits // of the board around this one; nil: there is none

	mu      sync.Mutex
	given   []Limits // by limiter; a limiter that has not answered yet pauses
	limits  Limits   // all combined
	heard   Limits   // of outer
	inForce context.Context
	change  context.CancelFunc // ends inForce
}

// peers let a limiter know the limits of the others.
type peers struct {
	asked atomic.Bool   // it wants to know them
	news  chan struct{} // of capacity 1: they have changed
}

// openBoard opens limiters, one after the other. If one fails, those that are open leave.
func openBoard(ctx context.Context, c Consumer, open ...OpenLimiter) (*board, error) {
	b := &board{ctx: ctx, log: c.Logger, outer: c.Others}
	for i, o := range open {
		p := &peers{news: make(chan struct{}, 1)}
		c.Others = func() Limits {
			p.asked.Store(true)
			return b.others(i)
		}
		t, err := openLimiter(ctx, c, o)
		if err != nil {
			leaving, cancel := leaveContext(ctx)
			defer cancel()
			return nil, errors.Join(err, b.Leave(leaving))
		}
		b.add(t, p)
	}
	b.limits = combine(b.given)
	b.inForce, b.change = context.WithCancel(ctx)
	for i := range b.limiters {
		go b.watch(i)
	}
	return b, nil
}

// add adds a limiter that is open. Limiters that were opened before may ask for the limits of the others already.
func (b *board) add(t Limiter, p *peers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limiters, b.peers, b.given = append(b.limiters, t), append(b.peers, p), append(b.given, Limits{Pause: true})
}

// openLimiter bounds the opening of a limiter. A limiter that was opened too late leaves at once. openLimiter waits for
// that for a moment, so that nothing of a limiter that heeds its context runs after the worker.
func openLimiter(ctx context.Context, c Consumer, open OpenLimiter) (Limiter, error) {
	if open == nil {
		return nil, errors.New("a limiter is nil")
	}
	var (
		limiter Limiter
		err     error
		opened  = make(chan struct{})
		missed  = make(chan struct{})
		ended   = make(chan struct{})
	)
	go func() {
		defer close(ended)
		err = usercode.Contain(func() (err error) {
			limiter, err = open(ctx, c)
			return err
		})
		select {
		case opened <- struct{}{}:
		case <-missed:
			if err == nil && limiter != nil {
				leaving, cancel := leaveContext(ctx)
				defer cancel()
				_ = leave(leaving, limiter) // its error is of no use to anybody
			}
		}
	}()
	timer := time.NewTimer(openTime)
	defer timer.Stop()
	var late error
	select {
	case <-opened:
		if err == nil && limiter == nil {
			err = errors.New("got no limiter")
		}
		return limiter, err
	case <-ctx.Done():
		late = context.Cause(ctx)
	case <-timer.C:
		late = fmt.Errorf("no limiter after %v", openTime)
	}
	close(missed)
	timer.Reset(lateTime)
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil, late
}

// leaveContext returns the context for a limiter's Leave. The consumer's may have ended.
func leaveContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), leaveTime, errors.New("the limiter did not leave in time"))
}

// leave calls a limiter's Leave.
func leave(ctx context.Context, t Limiter) error {
	return usercode.Contain(func() error { return t.Leave(ctx) })
}

// Now makes a board a [Limiter].
func (b *board) Now() (Limits, <-chan struct{}) {
	if b.outer != nil {
		outer := b.outer()
		b.mu.Lock()
		if outer != b.heard {
			b.heard = outer
			b.tellPeers(-1)
		}
		b.mu.Unlock()
	}
	limits, inForce := b.now()
	return limits, inForce.Done()
}

// now returns the limits in force, and a context that ends when they change or when the consumer stops.
func (b *board) now() (Limits, context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limits, b.inForce
}

// Leave lets all limiters leave, at the same time. It returns when they have left, or when ctx ends.
func (b *board) Leave(ctx context.Context) error {
	left := make(chan error, len(b.limiters))
	for _, t := range b.limiters {
		go func() { left <- leave(ctx, t) }()
	}
	var errs []error
	for range b.limiters {
		select {
		case err := <-left:
			errs = append(errs, err)
		case <-ctx.Done():
			return errors.Join(append(errs, errors.New("a limiter did not leave in time"))...)
		}
	}
	return errors.Join(errs...)
}

// watch keeps the limits of a limiter up to date until the consumer stops.
func (b *board) watch(i int) {
	failing := false
	for b.ctx.Err() == nil {
		asked := time.Now()
		limits, changed, err := b.ask(i)
		switch {
		case b.ctx.Err() != nil:
			return
		case err != nil:
			if !failing {
				b.log.LogAttrs(b.ctx, slog.LevelError, "the limiter of a queue fails; its last limits stay in force", append(b.last(i).attrs(), slog.Any("error", err))...)
			}
			failing = true
			b.wait(askAgain)
			continue
		case failing:
			failing = false
			b.log.LogAttrs(b.ctx, slog.LevelInfo, "the limiter of a queue works again", limits.attrs()...)
		}
		b.set(i, limits)
		select {
		case <-changed:
		case <-b.peers[i].news:
		case <-b.ctx.Done():
		}
		b.wait(askEvery - time.Since(asked)) // a channel that is always closed must not keep a processor busy
	}
}

// ask calls a limiter's Now. A call that doesn't return is reported.
func (b *board) ask(i int) (limits Limits, changed <-chan struct{}, err error) {
	late := time.AfterFunc(answerTime, func() {
		if b.ctx.Err() != nil {
			return // the worker has stopped without it
		}
		b.log.LogAttrs(b.ctx, slog.LevelError, "the limiter of a queue doesn't answer; its last limits stay in force", b.last(i).attrs()...)
	})
	defer late.Stop()
	err = usercode.Contain(func() error {
		limits, changed = b.limiters[i].Now()
		return limits.fault()
	})
	return limits, changed, err
}

func (b *board) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
	}
}

// last returns the limits that a limiter gave last.
func (b *board) last(i int) Limits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[i]
}

// set notes the limits that a limiter gives.
func (b *board) set(i int, limits Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bounds(limits) != bounds(b.given[i]) {
		b.tellPeers(i)
	}
	b.given[i] = limits
	if all := combine(b.given); all != b.limits {
		b.limits = all
		b.change()
		b.inForce, b.change = context.WithCancel(b.ctx)
	}
}

// tellPeers lets the limiters that want to know the limits of the others be asked again, but for one. The caller holds
// the mutex.
func (b *board) tellPeers(but int) {
	for i, p := range b.peers {
		if i != but && p.asked.Load() {
			select {
			case p.news <- struct{}{}:
			default:
			}
		}
	}
}

// bounds are limits without their pauses.
func bounds(l Limits) Limits {
	l.Pause, l.Brief = false, false
	return l
}

// others returns the bounds of all limiters but one, and the bounds around this board.
func (b *board) others(i int) Limits {
	var outer Limits
	if b.outer != nil {
		outer = b.outer()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	given := slices.Clone(b.given)
	if i < len(given) { // it is open
		given = slices.Delete(given, i, i+1)
	}
	return bounds(combine(append(given, outer)))
}

// combine returns the limits of all limiters together.
func combine(given []Limits) (all Limits) {
	for _, l := range given {
		all.Concurrency = least(all.Concurrency, l.Concurrency)
		all.MaxInHand = least(all.MaxInHand, l.MaxInHand)
		all.PollInterval = least(all.PollInterval, l.PollInterval)
	}
	all.Pause = slices.ContainsFunc(given, func(l Limits) bool { return l.Pause })
	all.Brief = all.Pause && !slices.ContainsFunc(given, func(l Limits) bool { return l.Pause && !l.Brief })
	return all
}

// least returns the least of two limits. Zero is none.
func least[N int | time.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
