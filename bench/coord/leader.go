package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/coord/leader"
)

const (
	leaderTTL = 3 * time.Second
	settle    = 500 * time.Millisecond // until a candidate waits
)

// stand is the child that stands for leader, and says when it leads.
func (s spec) stand(ctx context.Context, _ <-chan string, say func(saying)) error {
	lead := func(ctx context.Context) error {
		say(saying{At: time.Now().UnixNano()})
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if s.Kind == "leader" {
		store, err := openStore(ctx, s.Places[0])
		if err != nil {
			return err
		}
		say(saying{Ready: true})
		err = leader.Run(ctx, store, s.Name, leader.Config{TTL: leaderTTL}, func(ctx context.Context, _ leader.Term) error { return lead(ctx) })
		return errors.Join(err, store.Close())
	}
	session, end, err := openSession(s.Places[0], int(leaderTTL/time.Second))
	if err != nil {
		return err
	}
	say(saying{Ready: true})
	e := concurrency.NewElection(session, "/"+s.Name)
	if err = e.Campaign(ctx, "child"); err == nil {
		_ = lead(ctx) // the end of ctx
		err = e.Resign(context.WithoutCancel(ctx))
	}
	return errors.Join(err, end())
}

// lead starts a child that leads at once.
func (r *round) lead(ctx context.Context, s spec) (*child, error) {
	c, err := r.start(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := c.listen(ctx, time.Minute); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// follow starts a candidate, ends the leader after a while, and returns how long it took until the candidate led.
func (r *round) follow(ctx context.Context, s spec, after time.Duration, end func()) (next *child, took time.Duration, err error) {
	if next, err = r.start(ctx, s); err != nil {
		return nil, 0, err
	}
	pause(ctx, settle+after)
	ended := time.Now()
	end()
	x, err := next.listen(ctx, time.Minute)
	if err != nil {
		return nil, 0, errors.Join(err, next.end())
	}
	return next, time.Duration(x.At - ended.UnixNano()), nil
}

// handOver measures how soon another process leads after the leader was stopped in order.
func handOver(s spec) measure {
	return func(ctx context.Context, r *round) (values []float64, err error) {
		s, err := s.at(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		s.Role = "stands"
		now, err := r.lead(ctx, s)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, now.end()) }()
		var took []float64
		for began := time.Now(); len(took) == 0 || len(took) < 20 && time.Since(began) < 6*r.spell; {
			next, d, err := r.follow(ctx, s, 0, now.Stop)
			if err != nil {
				return nil, err
			}
			took = append(took, milli(d))
			before := now
			now = next
			if err := before.end(); err != nil {
				return nil, err
			}
		}
		return []float64{stats.Percentile(took, 50), stats.Percentile(took, 100)}, nil
	}
}

// takeOver measures how soon another process leads after the leader was killed, with up to four names at once.
func takeOver(s spec) measure {
	return func(ctx context.Context, r *round) ([]float64, error) {
		s, err := s.at(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		s.Role = "stands"
		n := min(max(int(r.spell/(500*time.Millisecond)), 1), 4)
		took, errs := make([]float64, n), make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			after := time.Duration(r.rand.Int64N(int64(min(r.spell, time.Second)))) // somewhere between two renewals
			s := s
			s.Name = fmt.Sprintf("%s-%d", s.Name, i)
			all.Go(func() {
				first, err := r.lead(ctx, s)
				if err != nil {
					errs[i] = err
					return
				}
				next, d, err := r.follow(ctx, s, after, first.Kill)
				_ = first.end() // it was killed
				if took[i] = d.Seconds(); err == nil {
					err = next.end()
				}
				errs[i] = err
			})
		}
		all.Wait()
		return []float64{stats.Percentile(took, 50), stats.Percentile(took, 100)}, errors.Join(errs...)
	}
}
