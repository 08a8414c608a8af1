package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/internal/chart"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// A plan says what to measure.
type plan struct {
	works   []work
	systems []System
	reps    int
	spell   time.Duration // of a rate
	seed    uint64
}

// A round is one measurement.
type round struct {
	*world
	dir   string // empty at first
	spell time.Duration
	rand  *rand.Rand
}

// run measures everything: one work after the other, and for each the systems in an order that changes with every
// repetition. A failure is logged, and becomes a sample with an error. When ctx ends, the report has the samples so
// far.
func (p *plan) run(ctx context.Context, log io.Writer) (r *Report, err error) {
	dir, err := os.MkdirTemp("", "bench-coord-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return nil, err
	}
	w := &world{dir: dir, errs: log, servers: map[string]started{}}
	defer w.stop()
	r = &Report{Machine: host.Machine(), For: p.spell, Reps: p.reps, Seed: p.seed, Systems: p.systems, Skipped: map[string]string{}, Loads: []string{host.Load()}, works: p.works}
	defer func() {
		r.Loads = append(r.Loads, host.Load())
		r.Versions = w.versions(p.systems)
	}()
	order := rand.New(rand.NewPCG(p.seed, 1))
	for rep := range p.reps {
		for _, work := range p.works {
			if work.name == "requests" {
				if rep == 0 && slices.ContainsFunc(p.systems, func(s System) bool { return s.Name == azurite }) {
					found, err := w.requests(ctx)
					r.add(Sample{Work: work.name, System: azurite, Rep: 1, Values: []float64{float64(len(found))}}, err, log, work, 1)
					r.Requests = found
				}
				continue
			}
			turn := slices.DeleteFunc(slices.Clone(p.systems), func(s System) bool { return work.measures[s.Name] == nil })
			order.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
			for _, s := range turn {
				if r.Skipped[s.Name] != "" {
					continue
				}
				x := Sample{Work: work.name, System: s.Name, Rep: rep + 1}
				x.Values, x.Stolen, err = w.measure(ctx, p.spell, order.Uint64(), work.measures[s.Name])
				if ctx.Err() != nil {
					return r, nil
				}
				r.add(x, err, log, work, p.reps)
			}
		}
	}
	return r, nil
}

// add keeps a sample, or notes why its system is skipped.
func (r *Report) add(x Sample, err error, log io.Writer, w work, reps int) {
	said := ""
	switch {
	case errors.Is(err, servers.ErrMissing), errors.Is(err, azuretest.ErrNotInstalled):
		r.Skipped[x.System] = err.Error()
		said = "SKIPPED: " + err.Error()
	case err != nil:
		x.Err = err.Error()
		said = "FAILED: " + x.Err
		r.Samples = append(r.Samples, x)
	default:
		var parts []string
		for i, m := range w.metrics {
			parts = append(parts, strings.TrimSpace(m.name+" "+chart.Number(x.Values[i])+" "+m.unit))
		}
		said = strings.Join(parts, ", ")
		r.Samples = append(r.Samples, x)
	}
	_, _ = fmt.Fprintf(log, "%d/%d %-9s %-16s %s\n", x.Rep, reps, x.Work, x.System, said)
}

// measure makes one measurement in a folder of its own.
func (w *world) measure(ctx context.Context, spell time.Duration, seed uint64, m measure) (values []float64, stolen float64, err error) {
	dir, err := os.MkdirTemp(w.dir, "round-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+20*spell, errors.New("the measurement didn't end in time"))
	defer cancel()
	runtime.GC()
	before := host.Read()
	values, err = m(ctx, &round{world: w, dir: dir, spell: spell, rand: rand.New(rand.NewPCG(seed, 2))})
	return values, before.Share(host.Read()), err
}

// A world has the servers, which start when they are first asked for.
type world struct {
	dir     string
	errs    io.Writer
	servers map[string]started
	azurite *azuretest.Server
}

type started struct {
	*servers.Server
	err error
}

// server returns the server of a name, and starts it if this is the first call.
func (w *world) server(name string, start func(dir string) (*servers.Server, error)) (*servers.Server, error) {
	s, ok := w.servers[name]
	if !ok {
		dir := filepath.Join(w.dir, name)
		if s.err = os.Mkdir(dir, 0o755); s.err == nil {
			s.Server, s.err = start(dir)
		}
		w.servers[name] = s
	}
	return s.Server, s.err
}

func (w *world) postgres(ctx context.Context) (*servers.Server, error) {
	return w.server("postgres", func(dir string) (*servers.Server, error) {
		return servers.Postgres(ctx, dir, "synchronous_commit=on")
	})
}

// redis starts n servers.
func (w *world) redis(ctx context.Context, fsync string, n int) ([]*servers.Server, error) {
	var all []*servers.Server
	for i := range n {
		s, err := w.server(fmt.Sprintf("redis-%s-%d", fsync, i), func(dir string) (*servers.Server, error) {
			return servers.Redis(ctx, dir, "--appendfsync", fsync)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (w *world) etcd(ctx context.Context) (*servers.Server, error) {
	return w.server("etcd", func(dir string) (*servers.Server, error) { return servers.Etcd(ctx, dir) })
}

// account returns a new account of Azurite, as a store's URL.
func (w *world) account() (string, error) {
	if w.azurite == nil {
		var err error
		if w.azurite, err = azuretest.Launch(); err != nil {
			return "", err
		}
	}
	a, err := w.azurite.Take()
	return "azure:" + a.ConnectionString(), err
}

func (w *world) stop() {
	for _, s := range w.servers {
		if s.Server != nil {
			s.Stop()
		}
	}
	if w.azurite != nil {
		w.azurite.Stop()
	}
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
