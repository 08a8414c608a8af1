// Package boottest drives programs as real processes, for tests.
package boottest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that takes a moment on an idle machine.
const patience = 60 * time.Second

// Main builds the program in the working directory, runs a package's tests with its path in *bin, and removes it.
// Call it from TestMain and exit with its result.
func Main(m *testing.M, bin *string) int {
	if slices.Contains(os.Args, "-test.fuzzworker") {
		return m.Run() // fuzz tests start no programs
	}
	dir, err := os.MkdirTemp("", "millrace-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	wd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*bin = filepath.Join(dir, filepath.Base(wd))
	if err := build(*bin, "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Other builds the program of another package beside Main's, once for all tests, and returns its path.
func Other(t *testing.T, bin, pkg string) string {
	t.Helper()
	other := filepath.Join(filepath.Dir(bin), filepath.Base(pkg))
	if _, err := os.Stat(other); err == nil {
		return other
	}
	fresh := filepath.Join(t.TempDir(), "program")
	err := build(fresh, pkg)
	if err == nil {
		err = os.Rename(fresh, other) // another test may have built it meanwhile
	}
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// build builds the program of a package into a file.
func build(bin, pkg string) error {
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// A Program is a running process.
type Program struct {
	Dir string // its working directory

	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and all its output is read

	mu      sync.Mutex
	output  strings.Builder // both streams, line by line
	changed chan struct{}   // closed and replaced with each line
}

// Start starts a program in a folder, with further environment variables ("NAME=value") and arguments. A program that
// still runs at the end of the test is killed. A failed test shows the output.
func Start(t *testing.T, bin, dir string, env []string, args ...string) *Program {
	t.Helper()
	p := &Program{Dir: dir, cmd: exec.Command(bin, args...), exited: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(withoutSettings(os.Environ()), env...)
	var streams [2]io.ReadCloser
	for i, pipe := range []func() (io.ReadCloser, error){p.cmd.StdoutPipe, p.cmd.StderrPipe} {
		s, err := pipe()
		if err != nil {
			t.Fatal(err)
		}
		streams[i] = s
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	for _, s := range streams {
		reading.Go(func() { p.read(s) })
	}
	go func() {
		defer close(p.exited)
		reading.Wait()
		_ = p.cmd.Wait() // Wait reports how it ended
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended already
		<-p.exited
		if t.Failed() {
			t.Logf("%s %s:\n%s", filepath.Base(bin), strings.Join(args, " "), p.Output())
		}
	})
	return p
}

// withoutSettings keeps a developer's own settings out of the tests.
func withoutSettings(env []string) []string {
	var rest []string
	for _, e := range env {
		if !strings.HasPrefix(e, "MILLRACE_") && !strings.HasPrefix(e, "RESERVATIONS_") && !strings.HasPrefix(e, "OTEL_") {
			rest = append(rest, e)
		}
	}
	return rest
}

func (p *Program) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.output.WriteString(lines.Text() + "\n")
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// Output returns all that the program has written so far, to both streams.
func (p *Program) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Line waits for a line that contains text, and returns it.
func (p *Program) Line(t *testing.T, text string) string {
	t.Helper()
	return p.line(t, text, func(line string) bool { return strings.Contains(line, text) })
}

// line waits for a line that is wanted, which what describes.
func (p *Program) line(t *testing.T, what string, wanted func(line string) bool) string {
	t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		output, changed := p.output.String(), p.changed
		p.mu.Unlock()
		for line := range strings.Lines(output) {
			if wanted(line) {
				return strings.TrimSuffix(line, "\n")
			}
		}
		select {
		case <-changed:
		case <-p.exited:
			if p.Output() == output { // otherwise the line may be among the last ones
				t.Fatalf("the program has ended without a line with %q", what)
			}
		case <-late:
			t.Fatalf("no line with %q within %v", what, patience)
		}
	}
}

// URL waits until the program has printed its address, and returns it.
func (p *Program) URL(t *testing.T) string {
	t.Helper()
	const link = "/ops/login" // lets an operator in, and is logged before
	line := p.line(t, "http://", func(line string) bool { return strings.Contains(line, "http://") && !strings.Contains(line, link) })
	return line[strings.Index(line, "http://"):]
}

// Signal sends a signal.
func (p *Program) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// PID is the number of the process.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Wait waits for the end of the program, and returns its exit code, -1 if a signal killed it.
func (p *Program) Wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal(errors.New("the program doesn't end"))
		return 0
	}
}

// Get requests a page, and returns the status and the body of the answer.
func Get(t testing.TB, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
