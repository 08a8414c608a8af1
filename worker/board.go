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

	"github.com/millrace-go/millrace/handlers"
)

const (
	openTime   = time.Minute           // for the opening of a turn
	lateTime   = time.Second           // that the worker waits for a turn that was opened too late and leaves
	answerTime = 10 * time.Second      // after which a turn that doesn't answer is reported
	askAgain   = time.Second           // before a turn that failed is asked again
	askEvery   = 10 * time.Millisecond // a turn that changes more often is asked more seldom than that
	leaveTime  = 30 * time.Second      // for the turns of a consumer that stops
)

// Turns combines turns. A consumer is paused while one of them pauses it. The least of the limits holds that they name.
func Turns(open ...OpenTurn) OpenTurn {
	return func(ctx context.Context, c Consumer) (Turn, error) { return openBoard(ctx, c, open...) }
}

// board keeps the limits that the turns of a consumer gave last, and combines them. Turns are the user's code. So each
// is asked on a goroutine of its own, and no caller of the board waits for them.
type board struct {
	ctx   context.Context // of the consumer
	log   *slog.Logger
	turns []Turn
	peers []*peers      // by turn
	outer func() Limits // of the board around this one; nil: there is none

	mu      sync.Mutex
	given   []Limits // by turn; a turn that has not answered yet pauses
	limits  Limits   // all combined
	heard   Limits   // of outer
	inForce context.Context
	change  context.CancelFunc // ends inForce
}

// peers let a turn know the limits of the others.
type peers struct {
	asked atomic.Bool   // it wants to know them
	news  chan struct{} // of capacity 1: they have changed
}

// openBoard opens turns, one after the other. If one fails, those that are open leave.
func openBoard(ctx context.Context, c Consumer, open ...OpenTurn) (*board, error) {
	b := &board{ctx: ctx, log: c.Logger, outer: c.Others}
	for i, o := range open {
		p := &peers{news: make(chan struct{}, 1)}
		c.Others = func() Limits {
			p.asked.Store(true)
			return b.others(i)
		}
		t, err := openTurn(ctx, c, o)
		if err != nil {
			leaving, cancel := leaveContext(ctx)
			defer cancel()
			return nil, errors.Join(err, b.Leave(leaving))
		}
		b.add(t, p)
	}
	b.limits = combine(b.given)
	b.inForce, b.change = context.WithCancel(ctx)
	for i := range b.turns {
		go b.watch(i)
	}
	return b, nil
}

// add adds a turn that is open. Turns that were opened before may ask for the limits of the others already.
func (b *board) add(t Turn, p *peers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns, b.peers, b.given = append(b.turns, t), append(b.peers, p), append(b.given, Limits{Pause: true})
}

// openTurn bounds the opening of a turn. A turn that was opened too late leaves at once. openTurn waits for that for a
// moment, so that nothing of a turn that heeds its context runs after the worker.
func openTurn(ctx context.Context, c Consumer, open OpenTurn) (Turn, error) {
	if open == nil {
		return nil, errors.New("a turn is nil")
	}
	var (
		turn   Turn
		err    error
		opened = make(chan struct{})
		missed = make(chan struct{})
		ended  = make(chan struct{})
	)
	go func() {
		defer close(ended)
		err = handlers.Contain(func() (err error) {
			turn, err = open(ctx, c)
			return err
		})
		select {
		case opened <- struct{}{}:
		case <-missed:
			if err == nil && turn != nil {
				leaving, cancel := leaveContext(ctx)
				defer cancel()
				_ = leave(leaving, turn) // its error is of no use to anybody
			}
		}
	}()
	timer := time.NewTimer(openTime)
	defer timer.Stop()
	var late error
	select {
	case <-opened:
		if err == nil && turn == nil {
			err = errors.New("got no turn")
		}
		return turn, err
	case <-ctx.Done():
		late = context.Cause(ctx)
	case <-timer.C:
		late = fmt.Errorf("no turn after %v", openTime)
	}
	close(missed)
	timer.Reset(lateTime)
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil, late
}

// leaveContext returns the context for a turn's Leave. The consumer's may have ended.
func leaveContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), leaveTime, errors.New("the turn did not leave in time"))
}

// leave calls a turn's Leave.
func leave(ctx context.Context, t Turn) error {
	return handlers.Contain(func() error { return t.Leave(ctx) })
}

// Now makes a board a [Turn].
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

// Leave lets all turns leave, at the same time. It returns when they have left, or when ctx ends.
func (b *board) Leave(ctx context.Context) error {
	left := make(chan error, len(b.turns))
	for _, t := range b.turns {
		go func() { left <- leave(ctx, t) }()
	}
	var errs []error
	for range b.turns {
		select {
		case err := <-left:
			errs = append(errs, err)
		case <-ctx.Done():
			return errors.Join(append(errs, errors.New("a turn did not leave in time"))...)
		}
	}
	return errors.Join(errs...)
}

// watch keeps the limits of a turn up to date until the consumer stops.
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
				b.log.LogAttrs(b.ctx, slog.LevelError, "the turn of a queue fails; its last limits stay in force", append(b.last(i).attrs(), slog.Any("error", err))...)
			}
			failing = true
			b.wait(askAgain)
			continue
		case failing:
			failing = false
			b.log.LogAttrs(b.ctx, slog.LevelInfo, "the turn of a queue works again", limits.attrs()...)
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

// ask calls a turn's Now. A call that doesn't return is reported.
func (b *board) ask(i int) (limits Limits, changed <-chan struct{}, err error) {
	late := time.AfterFunc(answerTime, func() {
		if b.ctx.Err() != nil {
			return // the worker has stopped without it
		}
		b.log.LogAttrs(b.ctx, slog.LevelError, "the turn of a queue doesn't answer; its last limits stay in force", b.last(i).attrs()...)
	})
	defer late.Stop()
	err = handlers.Contain(func() error {
		limits, changed = b.turns[i].Now()
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

// last returns the limits that a turn gave last.
func (b *board) last(i int) Limits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[i]
}

// set notes the limits that a turn gives.
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

// tellPeers lets the turns that want to know the limits of the others be asked again, but for one. The caller holds the
// mutex.
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

// others returns the bounds that all turns but one set, and those around this board.
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

// combine returns the limits of all turns together.
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
