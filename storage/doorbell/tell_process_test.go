//go:build unix

package doorbell

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// A hearing process is a child that runs hearer.
type hearing struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func startHearer(t *testing.T, url string) *hearing {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MILLRACE_DOORBELL_HEARER="+url)
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
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := &hearing{t, cmd, in, bufio.NewScanner(out)}
	if !p.lines.Scan() || p.lines.Text() != "ready" {
		t.Fatalf("a process said %q", p.lines.Text())
	}
	return p
}

func (p *hearing) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// freeze stops the process, and waits until it stands still.
func (p *hearing) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EINTR) {
			p.t.Fatal(err)
		}
	}
}

// stop ends the process, and returns what it was told.
func (p *hearing) stop() (lines []string) {
	p.t.Helper()
	p.in.Close()
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("process: %v; it said %q", err, lines)
	}
	return lines
}

// Real processes are told, each or one of them. One that is stopped or killed is passed over, without an error.
func TestTellAcrossProcesses(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		tellProcesses(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db")+"?wake=off")
	})
	t.Run("azurite", func(t *testing.T) {
		t.Parallel()
		tellProcesses(t, "azure:"+azuretest.Place(t, azurite, azure.Wipe))
	})
}

// tellOne tells one until somebody has heard it, or may have: a busy machine lets a process wait for longer than its
// answer is waited for.
func tellOne(t *testing.T, s *Doorbell, data string) {
	t.Helper()
	until(t, "a telling to be heard by one", func() bool {
		n, err := s.Publish(t.Context(), "topic", []byte(data), true)
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Fatal(err)
		}
		return n == 1 || err != nil
	})
}

func tellProcesses(t *testing.T, url string) {
	s, err := openRinging(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list := []*hearing{startHearer(t, url), startHearer(t, url), startHearer(t, url)}
	told(t, s, "topic", "each", false, 3)
	const tells = 30
	var took []time.Duration
	for i := range tells {
		began := time.Now()
		tellOne(t, s, fmt.Sprint("one", i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("one of three processes told: p50 %v, worst %v", took[tells/2], took[tells-1])

	list[0].freeze()
	for i := range 4 {
		tellOne(t, s, fmt.Sprint("stopped", i))
	}
	told(t, s, "topic", "all but the stopped one", false, 2)
	list[0].signal(syscall.SIGCONT)
	told(t, s, "topic", "again", false, 3)
	list[1].signal(syscall.SIGKILL)
	list[1].cmd.Wait()
	told(t, s, "topic", "the rest", false, 2)
	tellOne(t, s, "one of the rest")

	times := map[string]int{}
	for i, p := range []*hearing{list[0], list[2]} {
		lines := p.stop()
		for _, data := range lines {
			times[data]++
			if i == 0 && strings.HasPrefix(data, "stopped") {
				t.Errorf("the stopped process got %q, which was told to one", data)
			}
		}
		if !slices.Contains(lines, "each") || !slices.Contains(lines, "again") || !slices.Contains(lines, "the rest") {
			t.Errorf("a process was told %q", lines)
		}
	}
	for data, n := range times {
		if n != 1 && (strings.HasPrefix(data, "one") || strings.HasPrefix(data, "stopped")) {
			t.Errorf("%q was told to one and heard %d times", data, n)
		}
	}
	told(t, s, "topic", "nobody", false, 0)
}
