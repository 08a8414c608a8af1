package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage/sqlite"
)

type next = func(context.Context) (int64, error)

// A source opens a counter for n goroutines, with a function for each.
type source func(ctx context.Context, r *round, n int) (all []next, end func() error, err error)

// numbers measures how fast goroutines take numbers, after a warm-up of half the time. Then, with one goroutine, how
// long each call takes when they follow at no more than a million a second. That includes a reading of the clock.
func numbers(open source, goroutines int) measure {
	return func(ctx context.Context, r *round) (values []float64, err error) {
		all, end, err := open(ctx, r, goroutines)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, end()) }()
		if _, err := flatOut(ctx, all, r.spell/2); err != nil {
			return nil, err
		}
		rate, err := flatOut(ctx, all, r.spell)
		if err != nil {
			return nil, err
		}
		values = []float64{rate, 1e9 / rate}
		if goroutines > 1 {
			return values, nil
		}
		late, err := paced(ctx, all[0], r.spell)
		return append(values, late), err
	}
}

// flatOut returns how many numbers a second all goroutines take together.
func flatOut(ctx context.Context, all []next, spell time.Duration) (float64, error) {
	var taken atomic.Int64
	var over atomic.Bool
	var wait sync.WaitGroup
	errs := make([]error, len(all))
	began := time.Now()
	alarm := time.AfterFunc(spell, func() { over.Store(true) })
	defer alarm.Stop()
	for i, next := range all {
		wait.Go(func() {
			var n int64
			for ; !over.Load() && errs[i] == nil; n++ {
				_, errs[i] = next(ctx)
			}
			taken.Add(n)
		})
	}
	wait.Wait()
	return float64(taken.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// paced returns the 99.9th percentile of a call in microseconds.
func paced(ctx context.Context, next next, spell time.Duration) (float64, error) {
	took := make([]float64, 0, spell/time.Microsecond+1)
	began := time.Now()
	for due := time.Duration(0); due < spell; due += time.Microsecond {
		at := time.Since(began)
		for at < due {
			at = time.Since(began)
		}
		if at > spell {
			break
		}
		if _, err := next(ctx); err != nil {
			return 0, err
		}
		took = append(took, micro(time.Since(began)-at))
	}
	return stats.Percentile(took, 99.9), nil
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func millraceNumbers(ctx context.Context, r *round, n int) ([]next, func() error, error) {
	store, err := sqlite.Open(ctx, filepath.Join(r.dir, "store"))
	if err != nil {
		return nil, nil, err
	}
	s, err := ids.Open(store, "orders", ids.Config{})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return same(s.Next, n), func() error { return errors.Join(s.Close(ctx), store.Close()) }, nil
}

func same(f next, n int) []next {
	all := make([]next, n)
	for i := range all {
		all[i] = f
	}
	return all
}

func memoryNumbers(_ context.Context, _ *round, n int) ([]next, func() error, error) {
	var mu sync.Mutex
	var last int64
	return same(func(context.Context) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		last++
		return last, nil
	}, n), func() error { return nil }, nil
}

func postgresNumbers(cache string) source {
	return func(ctx context.Context, r *round, n int) (all []next, end func() error, err error) {
		server, err := r.postgres(ctx)
		if err != nil {
			return nil, nil, err
		}
		url := servers.PostgresURL(server.Socket, "postgres")
		err = errors.Join(servers.Execute(ctx, url, "DROP SEQUENCE IF EXISTS orders"), servers.Execute(ctx, url, "CREATE SEQUENCE orders"+cache))
		if err != nil {
			return nil, nil, err
		}
		var conns []*pgx.Conn
		end = func() (err error) {
			for _, c := range conns {
				err = errors.Join(err, c.Close(ctx))
			}
			return err
		}
		for range n {
			c, err := pgx.Connect(ctx, url)
			if err != nil {
				return nil, nil, errors.Join(err, end())
			}
			conns = append(conns, c)
			all = append(all, func(ctx context.Context) (v int64, err error) {
				err = c.QueryRow(ctx, "SELECT nextval('orders')").Scan(&v)
				return v, err
			})
		}
		return all, end, nil
	}
}

func redisNumbers(fsync string) source {
	return func(ctx context.Context, r *round, n int) ([]next, func() error, error) {
		started, err := r.redis(ctx, fsync, 1)
		if err != nil {
			return nil, nil, err
		}
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: started[0].Socket})
		return same(func(ctx context.Context) (int64, error) { return c.Incr(ctx, "orders").Result() }, n), c.Close, nil
	}
}
