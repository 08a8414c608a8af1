//go:build unix

package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_TURNS_STORE"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

// child is the program of another process: a worker whose handler writes a line when it begins and when it ends.
func child(path string) int {
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	routes, err := channel.NewRoutes(channel.Command[visit]("visits"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	channels, err := channel.New(s, routes, "/test")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r := handlers.NewRegistry(channels, handlers.Config{})
	r.Inside().Turns.TTL = 3 * time.Second // the test takes less time
	handlers.OneAtATime(r, "visits", func(v visit) string { return v.Key }, func(ctx context.Context, v visit) error {
		fmt.Println("begin", v.N, handlers.Fence(ctx))
		pause := time.NewTimer(50 * time.Millisecond)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		fmt.Println("end", v.N, handlers.Fence(ctx))
		return nil
	})
	w, err := worker.New(r, worker.Config{Visibility: 2 * time.Second})
	if err == nil {
		err = w.Run(context.Background())
	}
	fmt.Println(err)
	return 1
}

// crowd are processes that take turns. Their lines are in the order in which this process has read them.
type crowd struct {
	t    *testing.T
	path string

	mu    sync.Mutex
	begun map[*exec.Cmd]int // the message that a process handles, or 0
	fence int64             // the largest one
	by    *exec.Cmd         // that had it
	ended map[int]int
	runs  int
}

func (c *crowd) start() *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "MILLRACE_TURNS_STORE="+c.path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.hear(cmd, lines.Text())
		}
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-read
		_ = cmd.Wait()
	})
	return cmd
}

// hear takes a line of a process. A process that stood still may say of a turn that is over; its fence tells so.
func (c *crowd) hear(cmd *exec.Cmd, line string) {
	var what string
	var n int
	var fence int64
	if _, err := fmt.Sscan(line, &what, &n, &fence); err != nil {
		if !strings.Contains(line, "level=") {
			c.t.Errorf("a process says %q", line)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "end" {
		c.begun[cmd] = 0
		c.ended[n]++
		return
	}
	c.begun[cmd] = n
	c.runs++
	if fence == c.fence && c.by != cmd {
		c.t.Errorf("two processes have fence %d", fence)
	}
	if fence > c.fence {
		c.fence, c.by = fence, cmd
	}
}

// unended returns an error that names the messages, of so many, that no process has handled to their ends.
func (c *crowd) unended(of int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []int
	for n := 1; n <= of; n++ {
		if c.ended[n] == 0 {
			all = append(all, n)
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("the queue is empty, and these messages were never handled to their ends: %v", all)
	}
	return nil
}

// handler returns the process that handles a message, unless it is one of some.
func (c *crowd) handler(not ...*exec.Cmd) (*exec.Cmd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by != nil && c.begun[c.by] != 0 && !slices.Contains(not, c.by) {
		return c.by, nil
	}
	return nil, errors.New("nobody handles a message")
}

// handling waits for a process that handles a message, and returns it.
func (c *crowd) handling(not ...*exec.Cmd) (cmd *exec.Cmd) {
	c.t.Helper()
	worldtest.Eventually(c.t, func() (err error) {
		cmd, err = c.handler(not...)
		return err
	})
	return cmd
}

// stop lets a process stand still until another one handles a message. It may be stopped in the middle of a write, and
// then the others can't read or write. So it goes on for a moment now and then.
func (c *crowd) stop(cmd *exec.Cmd) {
	c.t.Helper()
	signal := func(s os.Signal) time.Time {
		if err := cmd.Process.Signal(s); err != nil {
			c.t.Fatal(err)
		}
		return time.Now()
	}
	since, still := signal(syscall.SIGSTOP), true
	worldtest.Eventually(c.t, func() error {
		switch passed := time.Since(since); {
		case still && passed > 10*time.Second:
			since, still = signal(syscall.SIGCONT), false
		case !still && passed > 100*time.Millisecond:
			since, still = signal(syscall.SIGSTOP), true
		}
		_, err := c.handler(cmd)
		return err
	})
	signal(syscall.SIGCONT)
}

// The holder of a key's turn is killed, and the next one stands still for longer than its turn lasts, and goes on. Each
// time another process takes over with a larger fence, and all messages are handled.
func TestLawOneAtATimeProcessesThatAreKilledAndStopped(t *testing.T) {
	parttest.InTurn(t)
	if testing.Short() {
		t.Skip("waits for TTLs to pass")
	}
	t.Parallel()
	c := &crowd{t: t, path: filepath.Join(t.TempDir(), "test.db"), begun: map[*exec.Cmd]int{}, ended: map[int]int{}}
	s := worldtest.OpenAt(t, c.path)
	w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[visit]("visits"))
	const messages = 60
	worldtest.Send(w, numbered("a", messages)...)
	for range 3 {
		c.start()
	}
	killed := c.handling()
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.stop(c.handling(killed)) // a third one takes over
	worldtest.Eventually(t, func() error {
		if n := worldtest.Queued(t, s, "visits"); n > 0 {
			return fmt.Errorf("%d messages are left", n)
		}
		return nil
	})
	worldtest.Want(t, "poisoned", len(w.Poisoned("visits")), 0)
	worldtest.Eventually(t, func() error { return c.unended(messages) }) // its last line may not have been read yet
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs > messages+2*64 {
		t.Errorf("%d messages ran %d times", messages, c.runs)
	}
}
