//go:build unix

package limit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_SHARE_STORE"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

const (
	realTTL   = 3 * time.Second // the shortest there is
	realLimit = 60
)

// child is the program of another process. It makes as many calls as it may, and tells when, and what its share is.
func child(path string) int {
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := limit.NewRate(s, name, realLimit, limit.Config{Strict: true}.Lasting(realTTL))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for before := -1.0; ; {
		if err := r.Wait(context.Background()); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("call", time.Now().UnixNano())
		if n := r.Share(); n != before {
			before = n
			fmt.Println("share", n)
		}
	}
}

// others are processes that share a rate.
type others struct {
	t     *testing.T
	path  string
	mu    sync.Mutex
	calls []time.Time // of all, under mu
}

// another is one of them.
type another struct {
	*agreetest.Process
	of    *others
	share float64 // under the mutex of of
}

func (o *others) start() *another {
	o.t.Helper()
	p := &another{Process: agreetest.Start(o.t, "MILLRACE_SHARE_STORE="+o.path), of: o}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for line := range p.Lines {
			var at int64
			var share float64
			o.mu.Lock()
			if _, err := fmt.Sscanf(line, "call %d", &at); err == nil {
				o.calls = append(o.calls, time.Unix(0, at))
			} else if _, err := fmt.Sscanf(line, "share %g", &share); err == nil {
				p.share = share
			} else {
				o.t.Errorf("a process says %q", line)
			}
			o.mu.Unlock()
		}
	}()
	o.t.Cleanup(func() {
		p.Kill()
		<-read
	})
	return p
}

// has waits until a process has a share.
func (p *another) has(least, most float64) {
	p.of.t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		p.of.mu.Lock()
		n := p.share
		p.of.mu.Unlock()
		if n >= least && n <= most {
			return
		}
		if time.Since(begin) > time.Minute {
			p.of.t.Fatalf("its share is %v after a minute, want %v to %v", n, least, most)
		}
	}
}

// Of three processes on one file, one is killed, and one is stopped for longer than its share lasts, and goes on. The
// others get what these had. In no window of time are there more calls than the limit allows.
func TestLaw4ProcessesThatAreKilledAndStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for TTLs to pass")
	}
	t.Parallel()
	o := &others{t: t, path: filepath.Join(t.TempDir(), "test.db")}
	a, b, c := o.start(), o.start(), o.start()
	for _, p := range []*another{a, b, c} {
		p.has(1, realLimit/3)
	}
	a.Signal(syscall.SIGKILL)
	b.has(realLimit/3+1, realLimit) // a share is less than its part where the machine is too busy to use it
	c.has(realLimit/3+1, realLimit)
	b.Signal(syscall.SIGSTOP)
	c.has(realLimit*2/3+1, realLimit)
	b.Signal(syscall.SIGCONT)
	b.has(1, realLimit/2)
	c.has(1, realLimit/2)
	for _, p := range []*another{b, c} {
		p.Kill()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.SortFunc(o.calls, time.Time.Compare)
	// Each process may note one call late, besides the content of its bucket.
	burst := 0.2*realLimit + 2*3
	for _, window := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
		if most := mostIn(o.calls, window); float64(most) > realLimit*window.Seconds()+burst {
			t.Errorf("%d calls in %v", most, window)
		}
	}
	t.Logf("%d calls", len(o.calls))
}
