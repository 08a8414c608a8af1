package agreetest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// A Process is the test binary as another process. The TestMain of a package tells by a variable of the environment
// what such a process does.
type Process struct {
	In    io.WriteCloser // of the process
	Lines chan string    // that the process prints; closed at its end

	t    testing.TB
	cmd  *exec.Cmd
	kill func() error
}

// Start starts the test binary with more variables in its environment. The process is killed at the end of the test.
func Start(t testing.TB, env ...string) *Process {
	t.Helper()
	p := &Process{Lines: make(chan string, 1000), t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.In, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.Lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case p.Lines <- lines.Text():
			case <-killed:
			}
		}
	}()
	p.kill = sync.OnceValue(func() error {
		_ = p.cmd.Process.Kill() // the process may have ended
		close(killed)
		<-read
		return p.cmd.Wait()
	})
	t.Cleanup(p.Kill)
	return p
}

// Read returns the next line.
func (p *Process) Read() string {
	p.t.Helper()
	select {
	case line, ok := <-p.Lines:
		if !ok {
			p.t.Fatal("a process has ended")
		}
		return line
	case <-time.After(time.Minute):
		p.t.Fatal("a process says nothing for a minute")
	}
	return ""
}

// Says waits for the next line, and fails the test if that is another line.
func (p *Process) Says(want string) {
	p.t.Helper()
	if got := p.Read(); got != want {
		p.t.Fatalf("a process says %q, want %q", got, want)
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ID is the process's.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill kills the process, and waits for its end.
func (p *Process) Kill() { _ = p.kill() }

// Stop ends the process by closing its input, and returns the lines that nobody has read. A process that fails also
// fails the test.
func (p *Process) Stop() (rest []string) {
	p.t.Helper()
	_ = p.In.Close() // may be closed
	for line := range p.Lines {
		rest = append(rest, line)
	}
	if err := p.kill(); err != nil {
		p.t.Errorf("a process: %v; it said %q", err, rest)
	}
	return rest
}
