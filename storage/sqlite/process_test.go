package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// child is the program of another process. It answers on standard output, and ends when standard input does.
func child(role, url string) int {
	ctx := context.Background()
	s, err := Open(ctx, url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	running := func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	switch role {
	case "open":
		if err := s.Queue("queue").Send(ctx, text("body")); err != nil {
			return fail(err)
		}
	case "send": // one at a time from several goroutines, each line an acknowledged body
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := 0; running(); i++ {
					body := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
					if err := s.Queue("queue").Send(ctx, text(body)); err != nil {
						fmt.Println(err)
						return
					}
					fmt.Println(body) // one write, so lines don't mix
				}
			})
		}
		all.Wait()
	case "fill": // sends 160 MB from several goroutines, a line for each
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				body := strings.Repeat("x", 40_000)
				for range 500 {
					if err := s.Queue("queue").Send(ctx, text(body)); err != nil {
						fmt.Println(err)
						return
					}
					fmt.Println("sent")
				}
			})
		}
		all.Wait()
	case "hold": // claims all messages, extends every other claim, and prints the receipts
		got, err := s.Queue("queue").Receive(ctx, maxReceive, 10*time.Minute)
		if err != nil {
			return fail(err)
		}
		for i, d := range got {
			if i%2 == 0 {
				if d.Receipt, err = s.Queue("queue").Extend(ctx, d.Receipt, 10*time.Minute); err != nil {
					return fail(err)
				}
			}
			fmt.Println(d.Receipt)
		}
		<-ended
	case "subscribe": // prints what it is published
		if _, err := s.Subscribe(ctx, "topic", func(data []byte, most int) int {
			if most > 0 {
				fmt.Println(string(data))
			}
			return 1
		}); err != nil {
			return fail(err)
		}
		fmt.Println("ready")
		<-ended
	case "stand": // is in a transaction until its input ends, and sends a message then
		if err := s.Driver().(*store).write(&engine.Op{Ctx: ctx}, func(*tx) error {
			fmt.Println("in a transaction")
			<-ended
			return nil
		}); err != nil {
			return fail(err)
		}
		if err := s.Queue("queue").Send(ctx, text("its own")); err != nil {
			return fail(err)
		}
	case "publish": // tells each, and prints how many took it
		n, err := s.Publish(ctx, "topic", []byte("b"), false)
		if err != nil {
			return fail(err)
		}
		fmt.Println(n)
	case "ping": // sends a message for each it receives
		ring, stop := wake(s.Driver(), "ping")
		defer stop()
		fmt.Println("ready")
		for running() {
			select {
			case <-ring:
			case <-ended:
			}
			got, err := s.Queue("ping").Receive(ctx, 10, time.Minute)
			if err != nil {
				return fail(err)
			}
			for _, d := range got {
				if err := s.Queue("pong").Send(ctx, []storage.Message{{Body: d.Body}}); err != nil {
					return fail(err)
				}
			}
		}
	}
	if err := s.Close(); err != nil {
		return fail(err)
	}
	return 0
}

// A process is a child that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func start(t *testing.T, role, url string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = os.Stderr
	return startAs(t, cmd, role, url)
}

func startAs(t *testing.T, cmd *exec.Cmd, role, url string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd}
	p.cmd.Env = append(os.Environ(), "MILLRACE_SQLITE_CHILD="+role, "MILLRACE_SQLITE_STORE="+url)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.lines = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

// read returns the next n lines, or fewer when the process ends.
func (p *process) read(n int) []string {
	var lines []string
	for len(lines) < n && p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	return lines
}

// stop ends the process and returns the rest of its output.
func (p *process) stop() []string {
	p.t.Helper()
	p.in.Close()
	lines := p.read(1 << 30)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("process: %v; it said %q", err, lines)
	}
	return lines
}

// until waits until done, a minute at most. missing says what is missing till then.
func until(t *testing.T, missing string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after a minute: %s", missing)
		}
	}
}

// kill kills the process, and returns once it has ended.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Wait()
}

func TestProcessesOpenFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "test.db")
	var processes []*process
	for range 4 {
		processes = append(processes, start(t, "open", path))
	}
	for _, p := range processes {
		p.stop()
	}
	if got := all(t, openAt(t, path, ""), "queue"); len(got) != 4 {
		t.Errorf("%d messages; want 4", len(got))
	}
}

// TestProcessesShareFairly has three processes write as fast as they can. None may starve.
func TestProcessesShareFairly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a, b := start(t, "send", path), start(t, "send", path)
	s := openAt(t, path, "")
	var worst time.Duration
	for i := range 200 {
		begin := time.Now()
		send(t, s, "other", fmt.Sprint(i))
		worst = max(worst, time.Since(begin))
	}
	want := slices.Concat(a.read(500), b.read(500))
	want = slices.Concat(want, a.stop(), b.stop())
	slices.Sort(want)
	if got := all(t, s, "queue"); !slices.Equal(got, want) {
		t.Errorf("%d messages; want the %d acknowledged", len(got), len(want))
	}
	t.Logf("worst of 200 sends beside two busy processes: %v", worst) // one that waits for longer than lockWait fails
}

// TestCrash kills a process that writes. All messages that it knew to be sent are there, and the file still works.
func TestCrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var sent []string
	for round := range 5 {
		p := start(t, "send", path)
		sent = append(sent, p.read(50+100*round)...)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, p.read(1<<30)...)
	}
	s := openAt(t, path, "")
	send(t, s, "queue", "alive")
	got := map[string]bool{}
	for _, body := range all(t, s, "queue") {
		if got[body] {
			t.Errorf("%q is there twice", body)
		}
		got[body] = true
	}
	for _, body := range append(sent, "alive") {
		if body != "" && !got[body] && strings.Count(body, "-") == 2 {
			t.Errorf("%q was acknowledged and is gone", body)
		}
	}
	err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error {
		if check, err := w.c.One("PRAGMA integrity_check"); check != "ok" || err != nil {
			return fmt.Errorf("integrity: %q, %w", check, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestProcessesWakeEachOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	p := start(t, "ping", path)
	if got := p.read(1); !slices.Equal(got, []string{"ready"}) {
		t.Fatalf("the other process said %q", got)
	}
	s := openAt(t, path, "")
	ring, stop := wake(s, "pong")
	defer stop()
	var took []time.Duration
	for i := range 50 {
		begin := time.Now()
		send(t, s, "ping", fmt.Sprint(i))
		for got := false; !got; {
			select {
			case <-ring:
				got = len(receive(t, s, "pong", 10)) > 0
			case <-time.After(time.Minute):
				t.Fatalf("no answer to message %d", i)
			}
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("to another process and back: p50 %v, worst %v", took[len(took)/2], took[len(took)-1])
	p.stop()
}

// TestLogOfManyIsShort has several processes write without a pause, so that a part of the log is always not yet copied.
func TestLogOfManyIsShort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	openAt(t, path, "?wake=off&sync=normal") // the last one to close removes the log
	var processes []*process
	for range 3 {
		processes = append(processes, start(t, "fill", path+"?sync=normal"))
	}
	var most int64
	for _, p := range processes {
		for len(p.read(1)) > 0 {
			most = max(most, size(t, path+"-wal"))
		}
	}
	if limit := int64(300 << 20); most > limit {
		t.Errorf("the log had %d MB while 480 MB were written; want %d at most", most>>20, limit>>20)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
