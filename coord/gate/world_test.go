package gate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "season-2027"
	poll = 2500 * time.Millisecond // the default
	rare = 10 * time.Minute        // the longest poll: what is quicker was told
)

// seldom is the gate for a process that looks as seldom as may be.
func seldom(t *testing.T, s *storage.Store) *gate.Gate {
	t.Helper()
	g, err := gate.New(s, name, gate.Polling(rare))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, g *gate.Gate) { t.Helper(); must(t, g.Open(t.Context(), gate.Note{By: "ada"})) }

func shut(t *testing.T, g *gate.Gate) {
	t.Helper()
	must(t, g.Close(t.Context(), gate.Note{By: "ada"}))
}

func announce(t *testing.T, g *gate.Gate, at time.Time) {
	t.Helper()
	must(t, g.OpenAt(t.Context(), at, gate.Note{By: "ada", Why: "the season begins"}))
}

func stateOf(t *testing.T, g *gate.Gate) gate.State {
	t.Helper()
	s, err := g.State(t.Context())
	must(t, err)
	return s
}

// wantClosed fails the test if a Wait that begins now returns within 20 minutes.
func wantClosed(t *testing.T, g *gate.Gate) {
	t.Helper()
	over := errors.New("over")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Minute, over)
	defer cancel()
	if err := g.Wait(ctx); !errors.Is(err, over) {
		t.Errorf("Wait ended with %v; want the gate to stay closed", err)
	}
}

// waiters are processes that wait for a gate.
type waiters struct {
	all      sync.WaitGroup
	mu       sync.Mutex
	ctx      context.Context    // of all; under mu
	end      context.CancelFunc // under mu
	released []time.Time        // under mu
}

// wait lets a process wait. It fails the test if the wait fails.
func (w *waiters) wait(t *testing.T, g *gate.Gate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		w.ctx, w.end = context.WithCancel(t.Context())
	}
	ctx := w.ctx
	w.all.Go(func() {
		if err := g.Wait(ctx); err != nil {
			t.Errorf("Wait: %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.released = append(w.released, time.Now())
	})
}

func (w *waiters) gone() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.released)
}

// want waits until all have gone, and fails the test unless each went from first to last.
func (w *waiters) want(t *testing.T, first, last time.Time) {
	t.Helper()
	stop := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end()
	}
	limit := time.AfterFunc(time.Until(last)+time.Minute, stop)
	w.all.Wait()
	limit.Stop()
	stop()
	for _, at := range w.released {
		if at.Before(first) || at.After(last) {
			t.Errorf("one went at %v, %v after the first moment and %v after the last one allowed", at.Format(time.StampMilli), at.Sub(first), at.Sub(last))
		}
	}
}

// silent is a store that loses what is told. The driver doesn't notice.
func silent(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "publish" {
			return nil
		}
		return do()
	})
}

// A fragile store loses Hearings when the test says so. While always is set, each is lost from the
// beginning.
type fragile struct {
	driver.Store
	mu     sync.Mutex
	always bool
	heard  int
	lost   []chan struct{} // of the Hearings that are not lost yet
}

func (f *fragile) Listener() driver.Listener { return fragileListener{f.Store.Listener(), f} }

// lose loses all Hearings, and returns how many there have been.
func (f *fragile) lose() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.lost {
		close(c)
	}
	f.lost = nil
	return f.heard
}

type fragileListener struct {
	driver.Listener
	f *fragile
}

func (l fragileListener) Subscribe(ctx context.Context, topic string, ear driver.Receiver) (driver.Registration, error) {
	inner, err := l.Listener.Subscribe(ctx, topic, ear)
	if err != nil {
		return nil, err
	}
	h := fragileHearing{inner, make(chan struct{})}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.heard++
	if l.f.always {
		close(h.lost)
	} else {
		l.f.lost = append(l.f.lost, h.lost)
	}
	return h, nil
}

type fragileHearing struct {
	driver.Registration
	lost chan struct{}
}

func (h fragileHearing) Lost() <-chan struct{} { return h.lost }

// A log counts its lines.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func newLog() *lines { return &lines{} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines have all these parts.
func (l *lines) count(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			n++
		}
	}
	return n
}
