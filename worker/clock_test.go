package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
)

// TestClockIsSet runs two processes on one file, and sets their wall clocks while they work. Such a machine was
// suspended, or got the time from a server late. The monotonic clock decides. So no message is in two workers' hands,
// and none stays hidden for longer.
func TestClockIsSet(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("processes share no monotonic clock here")
	}
	if testing.Short() {
		t.Skip("-short: it compiles the standard library once more")
	}
	program := buildClock(t)
	// A worker starts on a machine whose clock has no battery. A schedule runs that is due soon after the clock was
	// set, though the clock that was wrong has delayed its message.
	for _, behind := range []int{3600, 30 * 24 * 3600} {
		t.Run(fmt.Sprint("a daily schedule after a clock that was behind by ", behind), func(t *testing.T) {
			t.Parallel()
			a := startClock(t, program, filepath.Join(t.TempDir(), "test.db"))
			a.ask(fmt.Sprint("step ", -behind), "stepped")
			a.ask("daily "+time.Now().UTC().Add(8*time.Second).Format("5 4 15"), "registered")
			a.ask(fmt.Sprint("step ", behind), "stepped")
			a.ask("", "ran")
		})
	}
	for _, seconds := range []int{60, 3600, -3600} {
		t.Run(fmt.Sprint("an effect runs ", seconds), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			a, b := startClock(t, program, path), startClock(t, program, path)
			a.ask("work", "working")
			a.ask("send slow", "began slow")
			a.ask(fmt.Sprint("step ", seconds), "stepped")
			b.ask(fmt.Sprint("step ", seconds), "stepped")
			b.ask("work", "working")
			// The copy comes before the other message. It waits, and so does the first, of which it is a copy.
			b.ask("send slow other", "began other")
			b.ask("", "effect other")
			a.ask("finish", "effect slow")
		})
		t.Run(fmt.Sprint("a claim stands ", seconds), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			a, b := startClock(t, program, path), startClock(t, program, path)
			a.ask("hold 50s", "found 1")
			b.ask(fmt.Sprint("step ", seconds), "stepped")
			b.ask("look", "found 0")
			startClock(t, program, path).ask("look", "found 0")
		})
		t.Run(fmt.Sprint("a claim ends ", seconds), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			a, b := startClock(t, program, path), startClock(t, program, path)
			a.ask("hold 1s", "found 1")
			b.ask(fmt.Sprint("step ", seconds), "stepped")
			b.ask("wait", "found 1")
		})
	}
}

// buildClock compiles testdata/clock with a wall clock that it can set. The monotonic clock and timers stay as they
// are.
func buildClock(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reading) != 1 {
		t.Fatalf("%s has no %q any more: say here how its clock is set now", original, reading)
	}
	set := strings.Replace(string(source), reading, reading+"\tsec += Stepped\n", 1) + "\n// Stepped is how far the wall clock was set.\nvar Stepped int64\n"
	dir := t.TempDir()
	patched := filepath.Join(dir, "time.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{patched: []byte(set), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "clock")
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./testdata/clock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// clockProcess is a process with a clock of its own.
type clockProcess struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func startClock(t *testing.T, program, path string) *clockProcess {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // nothing more is read after that
	cmd := exec.CommandContext(ctx, program, path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	return &clockProcess{t: t, in: in, out: bufio.NewScanner(out)}
}

// ask tells the process something and waits for its next answer, which must be want.
func (p *clockProcess) ask(what, want string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		p.t.Fatal(err)
	}
	p.out.Scan()
	if got := p.out.Text(); got != want {
		p.t.Fatalf("%q: got %q, want %q", what, got, want)
	}
}
