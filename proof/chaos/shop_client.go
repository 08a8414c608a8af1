package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// A customer makes a purchase. Times count from the beginning of the run.
type customer struct {
	purchase
	starts  time.Duration
	picks   time.Duration // when the signal is sent; 0: nobody comes
	cancels time.Duration // 0: not at all
	twice   bool          // starts and signals are sent twice

	started, signalled, cancelled bool // what the customer has done
}

const (
	glass = "glass"
	rare  = "rare" // an item that not all can have
)

// stockOf is how much of an item there is at first, where each of the others has enough.
func stockOf(item string, each int) int {
	if item == rare {
		return max(1, each/20)
	}
	return each
}

func orderID(i int) string { return fmt.Sprintf("order-%d", i) }

// newCustomers returns n customers over some time. Each fate is that of one in so many, and which ones follows from the
// seed.
func newCustomers(n int, lasts time.Duration, seed uint64) (all []*customer) {
	random := rand.New(rand.NewPCG(seed, 3))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for i, fated := range random.Perm(n) {
		c := &customer{purchase: purchase{ID: orderID(i), Item: fmt.Sprintf("item-%d", random.IntN(5)), Price: 1 + random.IntN(99)}}
		for range 1 + random.IntN(4) {
			c.Lines = append(c.Lines, []string{"pot", "cup", glass}[random.IntN(3)])
		}
		c.starts = lasts * time.Duration(i) / time.Duration(n)
		c.picks = max(1, c.starts-lasts/50+upTo(4*time.Second)) // it may be before the start
		c.twice = random.IntN(20) == 0
		c.Fate.Slow = upTo(800 * time.Millisecond)
		switch fated % 30 {
		case 0, 1:
			c.Fate.Poor = true
		case 2, 3:
			c.Fate.Unwelcome = true
		case 4, 5, 6:
			c.picks = 0
		case 7, 8:
			c.cancels = c.starts + upTo(500*time.Millisecond)
		case 9, 10:
			c.cancels = c.starts + upTo(6*time.Second)
		case 11, 12, 13:
			c.Fate.Away = 1 + random.IntN(2)
		case 14:
			c.Fate.Away = 99
		case 15, 16, 17:
			c.Item = rare
		case 18, 19, 20, 21, 22:
			c.Fate.Hurry, c.Fate.Slow = true, 1500*time.Millisecond+upTo(time.Second)
		case 23, 24, 25:
			c.Fate.Lost = true
		}
		all = append(all, c)
	}
	return all
}

// A counter is where customers start, signal to and cancel their instances. Each call is repeated until it is answered.
type counter struct {
	orders *process.Instances[purchase]
	j      *journal
	begun  time.Time
}

// serveAll returns when all customers have done what they do, or when ctx ends.
func (c *counter) serveAll(ctx context.Context, all []*customer) {
	var serving sync.WaitGroup
	for _, one := range all {
		serving.Go(func() { c.serve(ctx, one) })
	}
	serving.Wait()
}

func (c *counter) serve(ctx context.Context, one *customer) {
	times := 1
	if one.twice {
		times = 2
	}
	act := func(due time.Duration, call func(context.Context) error) (did bool) {
		if due > 0 && !wait(ctx, time.Until(c.begun.Add(due))) {
			return false
		}
		for range times {
			did = c.patiently(ctx, one.ID, call)
		}
		return did
	}
	var signalling sync.WaitGroup
	signalling.Go(func() {
		one.signalled = one.picks > 0 && act(one.picks, func(ctx context.Context) error { return c.orders.Signal(ctx, one.ID, picked{"ada"}) })
	})
	one.started = act(one.starts, func(ctx context.Context) error { return c.orders.Start(ctx, one.ID, one.purchase) })
	one.cancelled = one.cancels > 0 && act(one.cancels, func(ctx context.Context) error { return c.orders.Cancel(ctx, one.ID, "ada", "changed her mind") })
	signalling.Wait()
}

// patiently repeats a call while the store is away, and reports whether it was answered.
func (c *counter) patiently(ctx context.Context, id string, call func(context.Context) error) bool {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, answerIn)
		err := call(one)
		cancel()
		if err == nil {
			return true
		}
		if !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled) && !errors.Is(err, context.DeadlineExceeded) {
			c.j.fault(nothingFails, "%s: %v", id, err)
			return false
		}
		wait(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
	}
	return false
}
