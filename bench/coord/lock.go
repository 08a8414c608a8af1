package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A lock returns the function that unlocks it.
type lock func(context.Context) (unlock func(context.Context) error, err error)

// at completes a spec with n places, whose servers it starts.
func (s spec) at(ctx context.Context, r *round, n int) (spec, error) {
	s.Name = fmt.Sprintf("n%d", r.rand.Uint32())
	s.For = r.spell
	var all []*servers.Server
	var err error
	switch {
	case s.Server == "redis", s.Kind == "redsync":
		all, err = r.redis(ctx, s.Settings, n)
	case s.Kind == "lease", s.Kind == "quorum", s.Kind == "leader":
		for i := range n {
			s.Places = append(s.Places, filepath.Join(r.dir, fmt.Sprint(i))+s.Settings)
		}
	case s.Kind == "advisory":
		var server *servers.Server
		server, err = r.postgres(ctx)
		all = append(all, server)
	default:
		var server *servers.Server
		server, err = r.etcd(ctx)
		all = append(all, server)
	}
	if err != nil {
		return s, err
	}
	for _, x := range all {
		place := x.Socket
		switch {
		case s.Server == "redis":
			place = (&url.URL{Scheme: onServer, Path: x.Socket, RawQuery: "prefix=bench"}).String()
		case s.Kind == "advisory":
			place = servers.PostgresURL(x.Socket, "postgres")
		}
		s.Places, s.Pids = append(s.Places, place), append(s.Pids, x.Pid)
	}
	return s, nil
}

// onServer is the scheme of stores on a Redis server.
const onServer = "redis+unix"

// servers is the CPU time that the servers have used, in seconds.
func (s spec) servers() (sum float64, err error) {
	for _, pid := range s.Pids {
		one, err := host.CPU(host.Proc, pid)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// openStore opens a file, a URL of a Redis server, or an account as in "azure:…" with a doorbell.
func openStore(ctx context.Context, place string) (*storage.Store, error) {
	if strings.HasPrefix(place, onServer+":") {
		return redis.Open(ctx, place)
	}
	account, ok := strings.CutPrefix(place, "azure:")
	if !ok {
		return sqlite.Open(ctx, place)
	}
	inner, err := azure.Open(ctx, account)
	if err != nil {
		return nil, err
	}
	d, err := doorbell.Over(inner, doorbell.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return d.Store, nil
}

// openSession connects to etcd. A TTL of 0 is etcd's default.
func openSession(socket string, ttl int) (*concurrency.Session, func() error, error) {
	client, err := etcd.New(etcd.Config{Endpoints: []string{"unix:" + socket}, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return session, func() error { return errors.Join(session.Close(), client.Close()) }, nil
}

// open connects to where the lock is.
func (s spec) open(ctx context.Context) (lock, func() error, error) {
	switch s.Kind {
	case "lease", "quorum":
		return s.openOurs(ctx)
	case "redsync":
		var pools []redsyncredis.Pool
		var ends []func() error
		for _, place := range s.Places {
			c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: place})
			pools, ends = append(pools, pool.NewPool(c)), append(ends, c.Close)
		}
		locks := redsync.New(pools...)
		return func(ctx context.Context) (func(context.Context) error, error) {
			m := locks.NewMutex(s.Name, redsync.WithTries(math.MaxInt32))
			return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, m.LockContext(ctx)
		}, joined(ends), nil
	case "advisory":
		c, err := pgx.Connect(ctx, s.Places[0])
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (func(context.Context) error, error) {
			_, err := c.Exec(ctx, "SELECT pg_advisory_lock(1)")
			return func(ctx context.Context) error { _, err := c.Exec(ctx, "SELECT pg_advisory_unlock(1)"); return err }, err
		}, func() error { return c.Close(context.Background()) }, nil
	default:
		session, end, err := openSession(s.Places[0], 0)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (func(context.Context) error, error) {
			m := concurrency.NewMutex(session, "/"+s.Name)
			return m.Unlock, m.Lock(ctx)
		}, end, nil
	}
}

func (s spec) openOurs(ctx context.Context) (lock, func() error, error) {
	var stores []*storage.Store
	var ends []func() error
	for _, place := range s.Places {
		store, err := openStore(ctx, place)
		if err != nil {
			return nil, nil, errors.Join(err, joined(ends)())
		}
		stores, ends = append(stores, store), append(ends, store.Close)
	}
	if s.Kind == "quorum" {
		return func(ctx context.Context) (func(context.Context) error, error) {
			l, err := quorum.Acquire(ctx, stores, s.Name, quorum.Config{})
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}, joined(ends), nil
	}
	return func(ctx context.Context) (func(context.Context) error, error) {
		l, err := lease.Acquire(ctx, stores[0], s.Name, lease.Config{})
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}, joined(ends), nil
}

func joined(ends []func() error) func() error {
	return func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
}

// uncontended measures a lock that this process alone wants, after a warm-up of a third of the time.
func uncontended(s spec, places int) measure {
	return func(ctx context.Context, r *round) (values []float64, err error) {
		s, err := s.at(ctx, r, places)
		if err != nil {
			return nil, err
		}
		lock, end, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, end()) }()
		took, begun, err := repeated(ctx, s, lock, r.spell)
		if err != nil {
			return nil, err
		}
		passed := time.Since(begun.at).Seconds()
		client, err := host.OwnCPU()
		if err != nil {
			return nil, err
		}
		server, err := s.servers()
		if err != nil {
			return nil, err
		}
		each := 1e6 / float64(len(took))
		return []float64{float64(len(took)) / passed, stats.Percentile(took, 50), stats.Percentile(took, 99),
			(client - begun.client + server - begun.server) * each, (server - begun.server) * each}, nil
	}
}

// begun is the time, and the CPU time so far, at the beginning of a measurement.
type begun struct {
	at             time.Time
	client, server float64
}

// begin reads the server's CPU time first, because the reading costs time and CPU itself.
func (s spec) begin() (b begun, err error) {
	if b.server, err = s.servers(); err != nil {
		return b, err
	}
	b.client, err = host.OwnCPU()
	b.at = time.Now()
	return b, err
}

// repeated locks and unlocks for a time, and says how long each took, in milliseconds.
func repeated(ctx context.Context, s spec, lock lock, spell time.Duration) (took []float64, b begun, err error) {
	if b, err = s.begin(); err != nil {
		return nil, b, err
	}
	for n, warm := 0, false; n < 3 || !warm || time.Since(b.at) < spell; n++ {
		if !warm && time.Since(b.at) > spell/3 {
			warm, took = true, nil
			if b, err = s.begin(); err != nil {
				return nil, b, err
			}
		}
		at := time.Now()
		unlock, err := lock(ctx)
		if err != nil {
			return nil, b, err
		}
		if err := unlock(ctx); err != nil {
			return nil, b, err
		}
		took = append(took, milli(time.Since(at)))
	}
	return took, b, nil
}

const (
	wanting = 4
	rest    = 2 * time.Millisecond // before a process wants the lock again
)

// wanted measures a lock that four processes want. A hand-over is an acquisition by another process than the one
// before.
func wanted(s spec) measure {
	return func(ctx context.Context, r *round) ([]float64, error) {
		s, err := s.at(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		s.Role = "wants"
		all, err := r.startAll(ctx, wanting, s)
		if err != nil {
			return nil, err
		}
		type acquired struct {
			at  int64
			who int
		}
		var order []acquired
		var waits []float64
		for _, c := range all {
			err = errors.Join(err, c.Tell("begin"))
		}
		for i, c := range all {
			x, e := c.listen(ctx, s.For+30*time.Second)
			err = errors.Join(err, e)
			waits = append(waits, x.Waits...)
			for _, at := range x.Times {
				order = append(order, acquired{at, i})
			}
		}
		if err = errors.Join(err, endAll(all)); err != nil {
			return nil, err
		}
		slices.SortFunc(order, func(a, b acquired) int { return int(a.at - b.at) })
		changes := 0
		for i := 1; i < len(order); i++ {
			if order[i].who != order[i-1].who {
				changes++
			}
		}
		seconds := s.For.Seconds()
		return []float64{float64(changes) / seconds, float64(len(order)) / seconds, stats.Percentile(waits, 50), stats.Percentile(waits, 100)}, nil
	}
}

// want is the child that wants a lock again and again. A wait that lasts until the end counts, too.
func (s spec) want(ctx context.Context, lines <-chan string, say func(saying)) error {
	lock, end, err := s.open(ctx)
	if err != nil {
		return err
	}
	say(saying{Ready: true})
	<-lines
	var x saying
	spell, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	for spell.Err() == nil {
		at := time.Now()
		unlock, err := lock(spell)
		x.Waits = append(x.Waits, milli(time.Since(at)))
		if err != nil {
			if spell.Err() == nil {
				return errors.Join(err, end())
			}
			break
		}
		x.Times = append(x.Times, time.Now().UnixNano())
		if err := unlock(ctx); err != nil {
			return errors.Join(err, end())
		}
		pause(spell, rest)
	}
	say(x)
	return end()
}
