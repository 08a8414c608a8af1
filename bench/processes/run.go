package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/internal/chart"
)

// A plan says what to measure.
type plan struct {
	works     []work
	systems   []System
	reps      int
	spell     time.Duration // short works are repeated so long
	instances int           // of a sequence
	limit     time.Duration // of a measurement
	seed      uint64
}

// A round is one measurement.
type round struct {
	errs io.Writer
	rand *rand.Rand
}

// errLate is the cause if a measurement exceeds its limit.
var errLate = errors.New("not ended in time")

// run measures everything: one work after the other, and for each the systems in an order that changes with every
// repetition. A failure is logged, and becomes a sample with an error. When ctx ends, the report has the samples so
// far.
func (p *plan) run(ctx context.Context, log io.Writer) (r *Report, err error) {
	dir, err := os.MkdirTemp("", "bench-processes-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return nil, err
	}
	w := &world{dir: dir, errs: log}
	defer w.stop()
	r = &Report{Machine: host.Machine(), For: p.spell, Instances: p.instances, Limit: p.limit, Reps: p.reps, Seed: p.seed,
		Systems: p.systems, Skipped: map[string]string{}, Loads: []string{host.Load()}, works: p.works}
	defer func() {
		r.Loads = append(r.Loads, host.Load())
		r.Versions = w.versions(p.systems)
	}()
	order := rand.New(rand.NewPCG(p.seed, 1))
	for rep := range p.reps {
		for _, work := range p.works {
			turn := slices.Clone(p.systems)
			order.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
			for _, s := range turn {
				if r.Skipped[s.Name] != "" || r.late(work, s.Name) != "" {
					continue
				}
				x, err := w.measure(ctx, p, order.Uint64(), work, s)
				if ctx.Err() != nil {
					return r, nil
				}
				x.Rep = rep + 1
				r.add(x, err, log, work)
			}
		}
	}
	return r, nil
}

// add keeps a sample, or notes why its system is skipped.
func (r *Report) add(x Sample, err error, log io.Writer, w work) {
	said := ""
	switch {
	case errors.Is(err, servers.ErrMissing):
		r.Skipped[x.System] = err.Error()
		_, _ = fmt.Fprintf(log, "%-12s SKIPPED: %v\n", x.System, err)
		return
	case errors.Is(err, errLate):
		x.Late = fmt.Sprintf("not ended after %v", r.Limit)
		said = x.Late
	case err != nil:
		x.Err = err.Error()
		said = "FAILED: " + x.Err
	default:
		var parts []string
		for i, m := range w.metrics {
			parts = append(parts, strings.TrimSpace(m.name+" "+chart.Number(x.Values[i])+" "+m.unit))
		}
		said = strings.Join(parts, ", ")
	}
	r.Samples = append(r.Samples, x)
	_, _ = fmt.Fprintf(log, "%d/%d %-12s %-12s %s\n", x.Rep, r.Reps, x.Work, x.System, said)
}

// late returns why a system is not measured in a work any more: it didn't end in time here, or in a smaller work of the
// same kind. It returns "" if there is no reason.
func (r *Report) late(w work, system string) string {
	for _, x := range r.works {
		if x.kind == w.kind {
			for _, s := range r.Samples {
				if s.Work == x.name && s.System == system && s.Late != "" {
					if x.name != w.name {
						return "not tried: " + x.name + " " + s.Late
					}
					return s.Late
				}
			}
		}
		if x.name == w.name {
			break
		}
	}
	return ""
}

// A world has the places, and the server, which starts when it is first needed.
type world struct {
	dir      string
	errs     io.Writer
	rounds   int
	postgres *servers.Server
}

// measure makes one measurement in a place of its own.
func (w *world) measure(ctx context.Context, p *plan, seed uint64, work work, system System) (x Sample, err error) {
	x = Sample{Work: work.name, System: system.Name}
	place, remove, err := w.place(ctx, system)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, errLate)
	defer cancel()
	s := spec{Role: "tries", Work: work.name, System: system.Name, Place: place, For: p.spell, Instances: p.instances}
	measure := work.measure
	if measure == nil {
		measure = tryInChild
	}
	before := host.Read()
	x.Values, err = measure(ctx, &round{w.errs, rand.New(rand.NewPCG(seed, 2))}, s)
	x.Stolen = before.Share(host.Read())
	return x, err
}

// tryInChild lets a child process make a measurement.
func tryInChild(ctx context.Context, r *round, s spec) ([]float64, error) {
	c, err := start(s, r.errs)
	if err != nil {
		return nil, err
	}
	x, err := c.listen(ctx)
	if ctx.Err() != nil {
		c.Kill() // what it does may have no end
	}
	ended := c.end()
	if err == nil {
		err = ended
	}
	return x.Values, err
}

// place makes a place for a system: the path of a file that doesn't exist yet, or an empty database.
func (w *world) place(ctx context.Context, s System) (place string, remove func() error, err error) {
	w.rounds++
	name := fmt.Sprintf("round_%d", w.rounds)
	if s.Server == "" {
		dir := filepath.Join(w.dir, name)
		return filepath.Join(dir, "store"), func() error { return os.RemoveAll(dir) }, os.Mkdir(dir, 0o755)
	}
	if w.postgres == nil {
		dir := filepath.Join(w.dir, "postgres")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", nil, err
		}
		if w.postgres, err = servers.Postgres(ctx, dir, "fsync=on", "synchronous_commit=on"); err != nil {
			return "", nil, err
		}
	}
	admin := servers.PostgresURL(w.postgres.Socket, "postgres")
	// The checkpoint is for the rounds before.
	for _, statement := range []string{"CREATE DATABASE " + name, "CHECKPOINT"} {
		if err := servers.Execute(ctx, admin, statement); err != nil {
			return "", nil, err
		}
	}
	return servers.PostgresURL(w.postgres.Socket, name), func() error {
		return servers.Execute(context.WithoutCancel(ctx), admin, "DROP DATABASE "+name+" WITH (FORCE)")
	}, nil
}

func (w *world) stop() {
	if w.postgres != nil {
		w.postgres.Stop()
	}
}

// versions tells the versions of the systems' modules and servers.
func (w *world) versions(all []System) map[string]string {
	versions := map[string]string{}
	for _, s := range all {
		versions[s.Name] = host.Versions(s.Modules)
		if s.Server != "" && w.postgres != nil {
			versions[s.Name] += ", " + w.postgres.Version
		}
	}
	return versions
}
