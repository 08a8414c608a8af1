//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain makes the test binary the program itself when a test starts it as one.
func TestMain(m *testing.M) {
	const child = "LOCKS_TEST_CHILD"
	if os.Getenv(child) != "" {
		main()
		return
	}
	if err := os.Setenv(child, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// ttl is longer than a busy machine keeps a process waiting.
const ttl = 9 * time.Second

// A process is a run of the program.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // closed when it has ended
}

func start(t *testing.T, verb, store string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], verb, "-store", store, "-ttl", ttl.String()), lines: make(chan string, 1000)}
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // exits tells how it ended
		_ = in.Close()
	}()
	go func() {
		defer close(ended)
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended already
		<-ended
	})
	return p
}

// says waits for a line that contains a text.
func (p *process) says(text string) {
	p.t.Helper()
	var before []string
	for limit := time.After(time.Minute); ; {
		select {
		case line, ok := <-p.lines:
			if strings.Contains(line, text) {
				return
			}
			if before = append(before, line); !ok {
				p.t.Fatalf("the process has ended and has not said %q, but:\n%s", text, strings.Join(before, "\n"))
			}
		case <-limit:
			p.t.Fatalf("within a minute the process has not said %q, but:\n%s", text, strings.Join(before, "\n"))
		}
	}
}

// exits waits for the end of the process, which must have this code.
func (p *process) exits(code int) {
	p.t.Helper()
	for limit, more := time.After(time.Minute), true; more; {
		select {
		case _, more = <-p.lines:
		case <-limit:
			p.t.Fatal("the process runs on after a minute")
		}
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("got exit code %d, want %d", got, code)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func file(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?sync=normal" // short transactions: none is open when a process is stopped
}

// The term stays while another process is restarted. It ends when the leader stops, and when it is killed.
func TestLeader(t *testing.T) {
	t.Parallel()
	store := file(t)
	first := start(t, "leader", store)
	first.says(", term 1")
	other := start(t, "leader", store)
	other.says("leads since")
	other.signal(syscall.SIGINT)
	other.exits(0)
	second := start(t, "leader", store)
	second.says("leads since")
	first.says(", term 1")
	first.signal(syscall.SIGINT)
	first.says("The end of term 1")
	first.exits(0)
	second.says(", term 2")
	third := start(t, "leader", store)
	third.says("leads since")
	second.signal(syscall.SIGKILL)
	third.says(", term 3")
	third.signal(syscall.SIGTERM)
	third.exits(0)
}

// A holder that was stopped for longer than its lease lasts finds its write refused.
func TestExport(t *testing.T) {
	t.Parallel()
	store := file(t)
	first := start(t, "export", store)
	first.says("Part 1 is written, with fence 1") // and writes nothing for a second, so it is in no transaction
	first.signal(syscall.SIGSTOP)
	second := start(t, "export", store)
	second.says("Part 1 is written, with fence 2")
	first.signal(syscall.SIGCONT)
	first.says("was refused, because fence 1 is old")
	first.exits(1)
	second.says("Part 3 is written, with fence 2")
	second.signal(syscall.SIGINT)
	second.exits(0)

	s, err := sqlite.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if d, err := lease.Read(t.Context(), s.Blobs("exports"), "newest"); err != nil || d.Fence != 2 {
		t.Errorf("got an export with fence %d, %v; want fence 2", d.Fence, err)
	}
}

// The lock is held while one of three stores is away. It is lost when two are.
func TestQuorum(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	away := func(name string) {
		t.Helper()
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+"-away")); err != nil {
			t.Fatal(err)
		}
	}
	var stores []string
	for _, name := range []string{"a", "b", "c"} {
		stores = append(stores, "sqlite:"+filepath.Join(dir, name, "locks.db"))
	}
	p := start(t, "quorum", strings.Join(stores, ","))
	p.says("held, with fence 1")
	away("b")
	p.says("a store of a lock fails\" lock=report store=1")
	for range 10 { // seconds: longer than the lock lasts without a majority
		p.says("held, with fence 1")
	}
	away("c")
	p.says("held no more")
	p.exits(1)
}
