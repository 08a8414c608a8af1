//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_GUARD_STORE"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

// child is the program of another process. It calls a service that is away, again and again. Once its breaker has
// opened, a call hangs.
func child(path string) int {
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g := once(guard.New("bank", guard.Config{Store: s, Slots: 4, Logger: slog.New(slog.DiscardHandler)}))
	if g.Err() != nil {
		fmt.Println(g.Err())
		return 1
	}
	if os.Getenv("MILLRACE_GUARD_ASKED") != "" {
		_ = guard.New("bank", guard.Config{Store: s, Logger: slog.New(slog.DiscardHandler)}).Do(context.Background(), ends(guard.CheckStatus(answer(429, "Retry-After: 3600"))))
		fmt.Println("was asked to wait")
		time.Sleep(time.Hour)
	}
	for {
		before := g.Open() // else it may open while a call begins
		_ = g.Do(context.Background(), func(context.Context) error {
			if before && g.Open() {
				fmt.Println("probes")
				time.Sleep(time.Hour)
			}
			return errDown
		})
		time.Sleep(20 * time.Millisecond)
	}
}

// Of two processes that share a breaker and slots, the one that probes is killed. The other gets the right to probe,
// and there is no other probe before.
func TestLaw7TheProberIsKilled(t *testing.T) {
	parttest.InTurn(t)
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	probes := make(chan int, 10)
	var all sync.WaitGroup
	processes := make([]*exec.Cmd, 2)
	for n := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "MILLRACE_GUARD_STORE="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes[n] = cmd
		all.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if strings.TrimSpace(lines.Text()) != "probes" {
					t.Errorf("process %d says %q", n, lines.Text())
				}
				probes <- n
			}
		})
	}
	t.Cleanup(func() {
		for _, cmd := range processes {
			_ = cmd.Process.Kill() // it may have ended
		}
		all.Wait()
		for _, cmd := range processes {
			_ = cmd.Wait()
		}
	})
	next := func(within time.Duration) int {
		select {
		case n := <-probes:
			return n
		case <-time.After(within):
			return -1
		}
	}
	first := next(time.Minute)
	if first < 0 {
		t.Fatal("no probe within a minute")
	}
	if n := next(5 * time.Second); n >= 0 {
		t.Fatalf("process %d probes while process %d does", n, first)
	}
	if err := processes[first].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := next(time.Minute); n != 1-first {
		t.Fatalf("after process %d was killed, %d probes", first, n)
	}
}

// A service asks another process to wait. This one is rung, and makes no call.
func TestLaw9AnotherProcessIsAsked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := guard.New("bank", guard.Config{Logger: slog.New(slog.DiscardHandler)})
	limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Leave(context.Background()) })
	if err := g.Do(t.Context(), ends(nil)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "MILLRACE_GUARD_STORE="+path, "MILLRACE_GUARD_ASKED=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "was asked to wait" {
		t.Fatalf("the other process says %q: %v", lines.Text(), lines.Err())
	}
	minute := time.After(time.Minute)
	for {
		limits, changed := limiter.Now()
		if limits.Pause {
			break
		}
		select {
		case <-changed:
		case <-minute:
			t.Fatal("a minute later this process still calls")
		}
	}
	if err := g.Do(t.Context(), ends(nil)); !errors.Is(err, guard.ErrOpen) {
		t.Errorf("got %v, want ErrOpen", err)
	}
}
