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

// A registration process is a child that runs subscriber.
type registration struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func startHearer(t *testing.T, url string) *registration {
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
	p := &registration{t, cmd, in, bufio.NewScanner(out)}
	if !p.lines.Scan() || p.lines.Text() != "ready" {
		t.Fatalf("a process said %q", p.lines.Text())
	}
	return p
}

func (p *registration) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// freeze stops the process, and waits until it stands still.
func (p *registration) freeze() {
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

// stop ends the process, and returns what it has printed.
func (p *registration) stop() (lines []string) {
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

// Data is published to real processes, to each or to one of them. One that is stopped or killed is passed over, without
// an error.
func TestPublishAcrossProcesses(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		publishToProcesses(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db")+"?wake=off")
	})
	t.Run("azurite", func(t *testing.T) {
		t.Parallel()
		publishToProcesses(t, "azure:"+azuretest.Place(t, azurite, azure.Wipe))
	})
}

// publishOne publishes to one until somebody has received it, or may have: a busy machine lets a process wait for
// longer than its answer is waited for.
func publishOne(t *testing.T, s *Doorbell, data string) {
	t.Helper()
	until(t, "a publication to be received by one", func() bool {
		n, err := s.Publish(t.Context(), "topic", []byte(data), true)
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Fatal(err)
		}
		return n == 1 || err != nil
	})
}

func publishToProcesses(t *testing.T, url string) {
	s, err := openRinging(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list := []*registration{startHearer(t, url), startHearer(t, url), startHearer(t, url)}
	published(t, s, "topic", "each", false, 3)
	const publications = 30
	var took []time.Duration
	for i := range publications {
		began := time.Now()
		publishOne(t, s, fmt.Sprint("one", i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("one of three processes published: p50 %v, worst %v", took[publications/2], took[publications-1])

	list[0].freeze()
	for i := range 4 {
		publishOne(t, s, fmt.Sprint("stopped", i))
	}
	published(t, s, "topic", "all but the stopped one", false, 2)
	list[0].signal(syscall.SIGCONT)
	published(t, s, "topic", "again", false, 3)
	list[1].signal(syscall.SIGKILL)
	list[1].cmd.Wait()
	published(t, s, "topic", "the rest", false, 2)
	publishOne(t, s, "one of the rest")

	times := map[string]int{}
	for i, p := range []*registration{list[0], list[2]} {
		lines := p.stop()
		for _, data := range lines {
			times[data]++
			if i == 0 && strings.HasPrefix(data, "stopped") {
				t.Errorf("the stopped process got %q, which was published to one", data)
			}
		}
		if !slices.Contains(lines, "each") || !slices.Contains(lines, "again") || !slices.Contains(lines, "the rest") {
			t.Errorf("a process was published %q", lines)
		}
	}
	for data, n := range times {
		if n != 1 && (strings.HasPrefix(data, "one") || strings.HasPrefix(data, "stopped")) {
			t.Errorf("%q was published to one and received %d times", data, n)
		}
	}
	published(t, s, "topic", "nobody", false, 0)
}
