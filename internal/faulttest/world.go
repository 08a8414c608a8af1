package faulttest

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A World is one run.
type World struct {
	Plan  Plan
	Store *storage.Store // without faults
	Began time.Time

	// Watch is called after each storage call of a process. It is called concurrently. Defaults to none.
	Watch func(p *Process, op storagetest.Op, f storagetest.Fault, err error)

	quiet atomic.Bool // faults are over

	mu       sync.Mutex
	history  []string // under mu
	failures []string // what must not happen; under mu
}

// New begins a run on a store.
func New(s *storage.Store, p Plan) *World {
	if p.Plain {
		s = storage.New(inSteps{s.Driver()})
	}
	return &World{Plan: p, Store: s, Began: time.Now()}
}

// inSteps takes the steps of a unit of work one by one, and finds no message by its key, with or without faults: what a
// Cancel has left must mean the same to all processes of a run. It rings, so that days may pass fast once faults are
// over.
type inSteps struct{ driver.Store }

func (inSteps) Committer() driver.Committer { return nil }
func (inSteps) Finder() driver.Finder       { return nil }

// Tell adds a line to the history.
func (w *World) Tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%9.3fs  ", time.Since(w.Began).Seconds())+fmt.Sprintf(format, args...))
}

// History returns the last lines of the history, or all of them where most is 0.
func (w *World) History(most int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.history
	if n := len(lines); most > 0 && n > most {
		lines = append([]string{fmt.Sprintf("… %d lines before", n-most)}, lines[n-most:]...)
	}
	return strings.Join(lines, "\n")
}

// Fail notes an event that must not happen.
func (w *World) Fail(format string, args ...any) {
	w.Tell(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// Failures returns what Fail has noted.
func (w *World) Failures() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failures)
}

// EndFaults ends all faults.
func (w *World) EndFaults() {
	w.quiet.Store(true)
	w.Tell("faults are over")
}

// Disturbed reports that faults go on.
func (w *World) Disturbed() bool { return !w.quiet.Load() }

// Left counts the messages of queues.
func (w *World) Left(ctx context.Context, queues []string) (now, later int64, err error) {
	for _, q := range queues {
		st, err := w.Store.Queue(q).Stats(ctx)
		if err != nil {
			return 0, 0, err
		}
		now, later = now+st.Ready+st.InFlight, later+st.Delayed
	}
	return now, later, nil
}

// Log returns a logger that puts the warnings of a process into the history.
func (w *World) Log(process string) *slog.Logger {
	return slog.New(slog.NewTextHandler(lines(func(s string) { w.Tell("%s: %s", process, s) }), &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type lines func(string)

func (l lines) Write(p []byte) (int, error) {
	l(strings.TrimSpace(string(p)))
	return len(p), nil
}

// A Process is a process of a worker or of a client: its memory ends with it.
type Process struct {
	World *World
	Name  string
	Store *storage.Store // as the process sees it
	Fuse  *storagetest.Fuse
	Until time.Time // the process is stopped then; zero: no such time
}

// Client begins a process that sends and reads. It doesn't crash, because that shows nothing new: a message is either
// sent or not.
func (w *World) Client(name string) *Process {
	chances := map[storagetest.Fault]float64{}
	for f, c := range w.Plan.Chances {
		if !crashes(f) {
			chances[f] = c
		}
	}
	if w.Plan.Schedule != nil {
		chances = nil
	}
	return w.process(name, storagetest.Seeded(w.Plan.Seed^hash(name), chances))
}

// worker begins a process for a worker.
func (w *World) worker(name string, first bool) *Process {
	switch schedule := w.Plan.Schedule; {
	case schedule == nil:
		return w.process(name, storagetest.Seeded(w.Plan.Seed^hash(name), w.Plan.Chances))
	case first:
		return w.process(name, schedule)
	}
	return w.process(name, storagetest.Seeded(0, nil))
}

func (w *World) process(name string, schedule func(storagetest.Op) storagetest.Fault) *Process {
	p, s := &Process{World: w, Name: name}, w.Store
	if w.Plan.Plain && w.Disturbed() {
		s = storagetest.Plain(s)
	}
	p.Store, p.Fuse = storagetest.Disturb(s, storagetest.Disturbance{
		Delay: w.Plan.Delay, Outage: w.Plan.Delay,
		Schedule: func(op storagetest.Op) storagetest.Fault {
			if w.quiet.Load() {
				return storagetest.NoFault
			}
			return schedule(op)
		},
		Trace: func(op storagetest.Op, f storagetest.Fault, err error) {
			if w.Watch != nil {
				w.Watch(p, op, f, err)
			}
			boring := op.Name == "receive" || op.Name == "stats" || op.Name == "extend"
			switch {
			case f != storagetest.NoFault:
				w.Tell("%s: %s %s: %s (%v)", name, op.Name, op.Resource, f, err)
			case !boring:
				w.Tell("%s: %s %s: %v", name, op.Name, op.Resource, err)
			}
		},
	})
	return p
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
