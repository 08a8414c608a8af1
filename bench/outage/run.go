package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-go/millrace/bench/children"
	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/servers"
)

// A plan says what to measure.
type plan struct {
	systems []System
	away    time.Duration // the service
	rate    float64       // of jobs, per second
	limit   time.Duration // after the service is back
}

const (
	before   = 3 * time.Second // that the service is there before it goes
	look     = time.Second     // between two looks at a system
	lastJobs = 5 * time.Minute // for those that were sent last, which nothing has disturbed
	stopTime = 10 * time.Second
)

// A runner is a system that runs.
type runner struct {
	System
	book  *book
	child *children.Child[saying]
	err   error
	done  Figures
}

// run lets all systems go through one outage. A failure is logged, and becomes a sample with an error.
func (p *plan) run(ctx context.Context, log io.Writer) (r *Report, err error) {
	dir, err := os.MkdirTemp("", "bench-outage-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return nil, err
	}
	log = &shared{w: log}
	w := &world{dir: dir, servers: map[string]*servers.Server{}, missing: map[string]error{}}
	defer w.stop()
	s, err := serve(p.systems)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r = &Report{
		Machine: host.Machine(), Away: p.away, Rate: p.rate, Limit: p.limit, Systems: p.systems,
		Skipped: map[string]string{}, Versions: map[string]string{}, Loads: []string{host.Load()},
	}
	all := w.startAll(ctx, p, s, r, log)
	ticks := host.Read()
	p.outage(ctx, all, log)
	r.Loads, r.Stolen = append(r.Loads, host.Load()), ticks.Share(host.Read())
	for _, x := range all {
		r.add(x, w)
		if err := x.child.End(stopTime); err != nil && x.err == nil {
			_, _ = fmt.Fprintf(log, "%s, at its end: %v\n", x.Name, err)
		}
	}
	return r, nil
}

// startAll starts the systems whose servers are there.
func (w *world) startAll(ctx context.Context, p *plan, s *service, r *Report, log io.Writer) []*runner {
	var all []*runner
	for _, sys := range p.systems {
		place, err := w.place(ctx, sys)
		if errors.Is(err, servers.ErrMissing) {
			r.Skipped[sys.Name] = err.Error()
			_, _ = fmt.Fprintf(log, "%-18s SKIPPED: %v\n", sys.Name, err)
			continue
		}
		x := &runner{System: sys, book: s.books[sys.Name], err: err}
		if err == nil {
			x.child, x.err = children.Start[saying](childVar, spec{sys.Name, place, s.url + "/" + sys.Name + "/", p.rate}, log)
		}
		if x.child == nil {
			r.add(x, w)
			continue
		}
		all = append(all, x)
	}
	return all
}

// outage lets the service be away for a time, in the middle of the jobs of all.
func (p *plan) outage(ctx context.Context, all []*runner, log io.Writer) {
	each(all, func(x *runner) { x.tell(ctx, begin) })
	_, _ = fmt.Fprintf(log, "jobs come, %v a second for each of %d systems\n", p.rate, len(all))
	wait(ctx, before)
	each(all, func(x *runner) { x.book.leave() })
	_, _ = fmt.Fprintf(log, "the service is away for %v\n", p.away)
	wait(ctx, p.away)
	each(all, func(x *runner) {
		said := x.tell(ctx, mark)
		x.book.comeBack(said.Sent, time.Now())
	})
	_, _ = fmt.Fprintf(log, "the service is back\n")
	each(all, func(x *runner) {
		x.drain(ctx, p.limit)
		_, _ = fmt.Fprintf(log, "%-18s %v\n", x.Name, x.said())
	})
}

// drain waits until a system has done all jobs that were sent before the service came back, or has given them up, but
// no longer than limit. Then it ends the sending, and waits for the last jobs.
func (x *runner) drain(ctx context.Context, limit time.Duration) {
	for end := time.Now().Add(limit); x.err == nil; wait(ctx, look) {
		x.done = x.book.figures(x.tell(ctx, count).Dead)
		if x.done.Left == 0 || time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	gone := x.done.Gone
	said := x.tell(ctx, cease)
	for end := time.Now().Add(lastJobs); x.err == nil && gone >= 0 && ctx.Err() == nil && x.book.undone(said.Sent) > said.Dead; wait(ctx, look) {
		if time.Now().After(end) {
			x.err = fmt.Errorf("%d jobs are neither done nor dead %v after the last was sent", x.book.undone(said.Sent)-said.Dead, lastJobs)
			return
		}
		said = x.tell(ctx, count)
	}
	if x.err == nil && gone >= 0 { // nothing else of the figures changes any more
		x.done.Twice = x.book.figures(said.Dead).Twice
	}
}

// tell says a line to a child and returns its answer, or the last one it got after the child has failed.
func (x *runner) tell(ctx context.Context, line string) (said saying) {
	if x.err != nil {
		return said
	}
	if x.err = x.child.Tell(line); x.err != nil {
		return said
	}
	said, x.err = x.child.Listen(ctx)
	if x.err == nil && said.Err != "" {
		x.err = errors.New(said.Err)
	}
	return said
}

func (x *runner) said() string {
	if x.err != nil {
		return "FAILED: " + x.err.Error()
	}
	return fmt.Sprintf("%+v", x.done)
}

// each calls do for all runners at the same time.
func each(all []*runner, do func(*runner)) {
	var under sync.WaitGroup
	for _, x := range all {
		under.Go(func() { do(x) })
	}
	under.Wait()
}

// shared is a writer for several goroutines.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A world has the places, and the servers, which start when they are first needed.
type world struct {
	dir     string
	servers map[string]*servers.Server
	missing map[string]error
	places  int
}

// place makes a place for a system: a folder, a socket or the URL of a database.
func (w *world) place(ctx context.Context, s System) (string, error) {
	w.places++
	if s.Server == "" {
		dir := filepath.Join(w.dir, s.Name)
		return dir, os.Mkdir(dir, 0o755)
	}
	server, err := w.server(ctx, s.Server)
	if err != nil {
		return "", err
	}
	if s.Server == onRedis {
		return server.Socket, nil
	}
	name := fmt.Sprintf("place_%d", w.places)
	err = servers.Execute(ctx, servers.PostgresURL(server.Socket, "postgres"), "CREATE DATABASE "+name)
	return servers.PostgresURL(server.Socket, name), err
}

func (w *world) server(ctx context.Context, name string) (*servers.Server, error) {
	if s, err := w.servers[name], w.missing[name]; s != nil || err != nil {
		return s, err
	}
	dir := filepath.Join(w.dir, name)
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		if name == onRedis {
			w.servers[name], err = servers.Redis(ctx, dir, "--appendfsync", "everysec")
		} else {
			w.servers[name], err = servers.Postgres(ctx, dir, "synchronous_commit=on")
		}
	}
	w.missing[name] = err
	return w.servers[name], err
}

func (w *world) stop() {
	for _, s := range w.servers {
		if s != nil {
			s.Stop()
		}
	}
}
