package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
)

// A counting counts the requests of some steps on stores of its own.
type counting struct {
	ctx    context.Context
	places []string // of the stores
	stores []*storage.Store
	found  []Requests
	err    error
}

// requests counts the requests of each operation on Azurite. The packages are measured at the same time, each on
// accounts of its own, because most of it is waiting.
func (w *world) requests(ctx context.Context) (found []Requests, err error) {
	var all []*counting
	defer func() {
		for _, c := range all {
			for _, s := range c.stores {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	parts := []func(*counting){countNumbers, countGate, countLease, countLeader, countQuorum, countSignal}
	for range parts {
		c := &counting{ctx: ctx}
		all = append(all, c)
		for range 3 {
			url, err := w.account()
			if err != nil {
				return nil, err
			}
			s, err := openStore(ctx, url)
			if err != nil {
				return nil, err
			}
			c.places, c.stores = append(c.places, url), append(c.stores, s)
		}
	}
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() { part(all[i]) })
	}
	wait.Wait()
	for _, c := range all {
		found = append(found, c.found...)
		err = errors.Join(err, c.err)
	}
	return found, err
}

// total is the number of requests of all stores so far.
func (c *counting) total() (n int64) {
	for _, s := range c.stores {
		for _, r := range s.Requests() {
			n += r.Count
		}
	}
	return n
}

// prepare does what isn't counted, such as a first call, which makes the container, and waits until its requests are
// over.
func (c *counting) prepare(f func() error) {
	if c.err == nil {
		if c.err = f(); c.err == nil {
			c.settle()
		}
	}
}

// settle waits until no request has been made for a while: a call may leave some to the background.
func (c *counting) settle() {
	const quiet, most = 50 * time.Millisecond, 3 * time.Second
	for began, seen := time.Now(), int64(-1); seen != c.total() && time.Since(began) < most; {
		seen = c.total()
		pause(c.ctx, quiet)
	}
}

// step counts the requests of a step.
func (c *counting) step(name string, f func() error) {
	c.prepare(func() error {
		before := c.total()
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.settle()
		c.found = append(c.found, Requests{name, float64(c.total() - before)})
		return nil
	})
}

// during counts the requests of a while, and scales them to a unit of time at which they are some times rarer.
func (c *counting) during(name string, while, unit time.Duration, rarer float64) {
	c.prepare(func() error {
		pause(c.ctx, 500*time.Millisecond) // past the beginning, and between two renewals
		before := c.total()
		pause(c.ctx, while)
		c.found = append(c.found, Requests{name, float64(c.total()-before) * float64(unit) / float64(while) / rarer})
		return nil
	})
}

func countNumbers(c *counting) {
	const size = 10 // of the first range, so that all have one size
	var s *ids.Sequence
	take := func(n int) func() error {
		return func() error {
			for range n {
				if _, err := s.Next(c.ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	open := func(name string) func() (err error) {
		return func() (err error) {
			s, err = ids.Open(c.stores[0], name, ids.Config{Most: size})
			return err
		}
	}
	c.prepare(open("first"))
	c.prepare(take(1))
	c.prepare(open("second"))
	c.step("ids: the first range", take(1))
	c.step("ids: each later range", take(size))
	c.step("ids: Close", func() error { return s.Close(c.ctx) })
}

func countGate(c *counting) {
	note := gate.Note{By: "bench"}
	first := gate.At(c.stores[0], "first")
	second := gate.At(c.stores[0], "second")
	c.prepare(func() error { return first.Open(c.ctx, note) })
	c.step("gate: Wait at an open gate", func() error { return first.Wait(c.ctx) })
	c.step("gate: Close", func() error { return first.Close(c.ctx, note) })
	c.step("gate: Open", func() error { return first.Open(c.ctx, note) })
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { _ = second.Wait(ctx) }) // ends with ctx
	c.during("gate: an hour of Wait, computed from 15 s", 15*time.Second, time.Hour, 1)
	c.step("gate: Open before one that waits in the same process, its look included", func() error {
		err := second.Open(c.ctx, note)
		wait.Wait()
		return err
	})
	cancel()
}

func countLease(c *counting) {
	var l *lease.Lease
	acquire := func(name string) func() (err error) {
		return func() (err error) {
			l, err = lease.Acquire(c.ctx, c.stores[0], name, lease.Config{TTL: 3 * time.Second})
			return err
		}
	}
	release := func() error { return l.Release(c.ctx) }
	c.prepare(acquire("first"))
	c.prepare(release)
	c.step("lease: Acquire", acquire("second"))
	c.during("lease: an hour of renewals, computed from 3 s at TTL 3 s", 3*time.Second, time.Hour, 10)
	c.step("lease: Release", release)
}

func countLeader(c *counting) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var wait sync.WaitGroup
	stand := func() {
		led := make(chan struct{})
		wait.Go(func() {
			_ = leader.Run(ctx, c.stores[0], "name", leader.Config{TTL: leaderTTL}, func(ctx context.Context, _ leader.Term) error {
				close(led)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		if c.err == nil {
			select {
			case <-led:
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				c.err = errors.New("leader: nobody leads")
			}
		}
	}
	stand()
	c.during("leader: a minute of leading, computed from 3 s at TTL 3 s", 3*time.Second, time.Minute, 10./3)
	cancel()
	wait.Wait()
}

func countQuorum(c *counting) {
	var l *quorum.Lock
	acquire := func(name string) func() (err error) {
		return func() (err error) {
			l, err = quorum.Acquire(c.ctx, c.stores, name, quorum.Config{})
			return err
		}
	}
	release := func() error { return l.Release(c.ctx) }
	c.prepare(acquire("first"))
	c.prepare(release)
	c.step("quorum of three: Acquire", acquire("second"))
	c.step("quorum of three: Release", release)
}

func countSignal(c *counting) {
	var l *signal.Listener
	listen := func() (err error) {
		l, err = signal.Listen(c.ctx, c.stores[0], topic)
		return err
	}
	c.prepare(func() error { // another process makes the table
		other, err := openStore(c.ctx, c.places[0])
		if err != nil {
			return err
		}
		l, err := signal.Listen(c.ctx, other, topic)
		if err == nil {
			l.Close()
		}
		return errors.Join(err, other.Close())
	})
	c.step("signal: the first Listen of a process", listen)
	c.step("signal: Broadcast", func() error {
		_, err := signal.Broadcast(c.ctx, c.stores[0], topic, nil)
		return err
	})
	c.step("signal: One", func() error {
		_, err := signal.One(c.ctx, c.stores[0], topic, nil)
		return err
	})
	if l != nil {
		l.Close()
	}
}
