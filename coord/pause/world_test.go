package pause_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/storage"
)

const poll = 30 * time.Second // the default

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr fails the test unless err is of a kind and has these words.
func wantErr(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got error %v; want a word about %s", err, w)
		}
	}
}

// at returns the pauses of a store.
func at(t *testing.T, s *storage.Store) *pause.Pauses {
	t.Helper()
	p, err := pause.New(s, pause.Config{})
	must(t, err)
	return p
}

// skewed are the pauses for a process whose clock is ahead by d.
func skewed(t *testing.T, s *storage.Store, d time.Duration) *pause.Pauses {
	t.Helper()
	return pause.WithClock(at(t, s), func() time.Time { return time.Now().Add(d) })
}

// hold pauses queues; a length of 0 is without an end.
func hold(t *testing.T, p *pause.Pauses, length time.Duration, queues ...string) {
	t.Helper()
	must(t, p.Pause(t.Context(), queues, length, pause.Note{By: "ada", Why: "no mail server"}))
}

func resume(t *testing.T, p *pause.Pauses, queues ...string) {
	t.Helper()
	must(t, p.Resume(t.Context(), queues...))
}

// listed are the queues that a listing has, with blanks between them.
func listed(t *testing.T, p *pause.Pauses) string {
	t.Helper()
	all, err := p.List(t.Context())
	must(t, err)
	return queues(all)
}

// queues are the names of queues, with blanks between them.
func queues(all map[string]pause.Pause) string {
	var names []string
	for q := range all {
		names = append(names, q)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// nothing is what a watch has told that has told nothing.
const nothing = "nothing"

// A watch is a process that watches pauses.
type watch struct {
	stop func()

	mu  sync.Mutex
	all string // yielded last; under mu
	n   int    // yielded so far; under mu
}

// watching begins a watch, which ends with the test.
func watching(t *testing.T, p *pause.Pauses) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, ended := &watch{all: nothing}, make(chan struct{})
	go func() {
		defer close(ended)
		for all := range p.Watch(ctx) {
			w.mu.Lock()
			w.all, w.n = queues(all), w.n+1
			w.mu.Unlock()
		}
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(w.stop)
	return w
}

// want fails the test unless these queues are paused for the watch by now.
func (w *watch) want(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all != want {
		t.Errorf("%s: the watch has %q, want %q", when, w.all, want)
	}
}

// put writes what somebody else puts in the place of the pauses.
func put(t *testing.T, s *storage.Store, body string) {
	t.Helper()
	_, err := s.Blobs(pause.Container).Put(t.Context(), pause.Key, []byte(body), storage.Condition{})
	must(t, err)
}

// log keeps its lines.
type log struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines have all these parts.
func (l *log) count(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			n++
		}
	}
	return n
}

// wantLines fails the test unless so many lines have all these parts.
func (l *log) wantLines(t *testing.T, want int, parts ...string) {
	t.Helper()
	if n := l.count(parts...); n != want {
		t.Errorf("%d lines have %q, want %d:\n%s", n, parts, want, fmt.Sprint(&l.all))
	}
}
