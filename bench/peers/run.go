package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/internal/chart"
)

// A plan says what to measure.
type plan struct {
	systems []contender
	works   []child.Work
	reps    int
	stolen  float64    // repeat a measurement that lost more than this share of processor time to the host
	spec    child.Spec // For, Backlog, Seed
	before  []System   // of the run that is resumed, and what it has measured
	done    []child.Sample
}

// run measures everything: one work after the other, and for each the systems in an order that changes with every
// repetition. A failure is logged, and becomes a sample with an error. A system whose programs are missing is left
// out. When ctx ends, the report has the samples so far.
func (p plan) run(ctx context.Context, log io.Writer) *Report {
	r := &Report{Machine: host.Machine(), Program: program(), For: p.spec.For, Backlog: p.spec.Backlog, Reps: p.reps, Seed: p.spec.Seed, Skipped: map[string]string{}, Samples: slices.Clone(p.done)}
	for _, c := range p.systems {
		r.Systems = append(r.Systems, c.System)
	}
	for _, s := range p.before {
		if !slices.ContainsFunc(r.Systems, func(x System) bool { return x.Name == s.Name }) {
			r.Systems = append(r.Systems, s)
		}
	}
	order := rand.New(rand.NewPCG(p.spec.Seed, 1))
	for rep := range p.reps {
		for _, work := range p.works {
			systems := slices.Clone(p.systems)
			order.Shuffle(len(systems), func(i, j int) { systems[i], systems[j] = systems[j], systems[i] })
			for _, c := range systems {
				spec := p.spec
				spec.System, spec.Work, spec.Seed = c.Name, work, order.Uint64()
				is := func(s child.Sample) bool { return s.System == c.Name && s.Work == work && s.Rep == rep+1 }
				if r.Skipped[c.Name] != "" || !slices.Contains(c.works, work) || slices.ContainsFunc(p.done, is) {
					continue
				}
				s, err := p.quietly(ctx, c, spec, log)
				if ctx.Err() != nil {
					return r
				}
				s.System, s.Work, s.Rep = c.Name, work, rep+1
				if errors.Is(err, servers.ErrMissing) {
					r.Skipped[c.Name] = err.Error()
				} else {
					r.Samples = append(r.Samples, s)
				}
				_, _ = fmt.Fprintf(log, "%d/%d %-9s %-22s %s\n", rep+1, p.reps, work, c.Name, brief(s, err))
			}
		}
	}
	return r
}

// resume takes over the samples of a run that was stopped.
func (p *plan) resume(r *Report) error {
	if r.Machine != host.Machine() || r.For != p.spec.For || r.Backlog != p.spec.Backlog || r.Seed != p.spec.Seed {
		return fmt.Errorf("-resume: the file was written with -for %v -backlog %d -seed %d on %s: use the same", r.For, r.Backlog, r.Seed, r.Machine)
	}
	if now := program(); r.Program != now || now == "" {
		return errors.New("-resume: the file was written by another build of this program, perhaps of other code: start a new run")
	}
	p.before = r.Systems
	p.done = slices.DeleteFunc(slices.Clone(r.Samples), func(s child.Sample) bool { return s.Err != "" })
	return nil
}

// program is the SHA-256 of this program, which changes with its code. It is empty if the program can't be read.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// quietly repeats a measurement until the host takes little processor time, and returns the quietest sample.
func (p plan) quietly(ctx context.Context, c contender, spec child.Spec, log io.Writer) (child.Sample, error) {
	s, _, err := host.Quietly(ctx, p.stolen, func() (child.Sample, float64, error) {
		s, err := measure(ctx, c, spec)
		return s, s.Stolen, err
	}, func(s child.Sample, stolen float64) {
		_, _ = fmt.Fprintf(log, "again     %-9s %-22s %s, but the host took %s %% of the processors\n", spec.Work, c.Name, brief(s, nil), chart.Number(100*stolen))
	})
	return s, err
}

// measure makes one measurement in a child, with a folder and a server of its own.
func measure(ctx context.Context, c contender, spec child.Spec) (s child.Sample, err error) {
	defer func() {
		if err != nil {
			s.Err = err.Error()
		}
	}()
	program, err := programOf(c)
	if err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return s, err
	}
	spec.Dir = filepath.Join(dir, "client")
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return s, err
	}
	var version string
	if c.server != nil {
		home := filepath.Join(dir, "server")
		if err := os.Mkdir(home, 0o755); err != nil {
			return s, err
		}
		server, err := c.server(ctx, home)
		if err != nil {
			return s, err
		}
		defer server.Stop()
		spec.Addr, spec.ServerPid, version = server.Socket, server.Pid, server.Version
	}
	before := host.Read()
	s, err = ask(ctx, program, spec)
	s.Stolen = before.Share(host.Read())
	s.Versions = strings.Trim(s.Versions+", "+version, ", ")
	return s, err
}

// ask runs a child and reads its answer.
func ask(ctx context.Context, program string, spec child.Spec) (child.Sample, error) {
	var s child.Sample
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Limit()+10*time.Second, errors.New("the child didn't end in time"))
	defer cancel()
	question, err := json.Marshal(spec)
	if err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	in, err := cmd.StdinPipe() // stays open: its end tells the child that this process has ended
	if err != nil {
		return s, err
	}
	if err := cmd.Start(); err != nil {
		return s, err
	}
	_, err = in.Write(append(question, '\n'))
	err = errors.Join(err, cmd.Wait())
	if cause := context.Cause(ctx); cause != nil {
		return s, cause
	}
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, tail(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return s, fmt.Errorf("the child's answer: %w", err)
	}
	return s, nil
}

// childEnv makes this program a child.
const childEnv = "MILLRACE_BENCH_CHILD"

// programOf is the program of a child: this one, or another one in the same folder.
func programOf(c contender) (string, error) {
	self, err := os.Executable()
	if err != nil || c.program == "" {
		return self, err
	}
	path := filepath.Join(filepath.Dir(self), c.program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is %w beside this program: go build ./%s makes it, in its own module", c.program, servers.ErrMissing, c.program)
	}
	return path, nil
}

func tail(text string) string {
	const most = 500
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// brief is a short form of a sample for the log.
func brief(s child.Sample, err error) string {
	if err != nil {
		return "FAILED: " + err.Error()
	}
	var parts []string
	for _, m := range metrics[s.Work] {
		parts = append(parts, m.name+" "+chart.Number(m.of(s))+m.unit)
	}
	return strings.Join(parts, ", ")
}
