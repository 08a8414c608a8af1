package limiters_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// azurite is the server of this package's tests.
var azurite = sync.OnceValues(azuretest.Launch)

// TestMain runs the test binary as a worker when a test has started it as one.
func TestMain(m *testing.M) {
	if place := os.Getenv("MILLRACE_PAUSED_CHILD"); place != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := child(ctx, place); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child works until ctx ends. It prints its log, and which jobs it handles.
func child(ctx context.Context, place string) error {
	s, err := openPlace(ctx, place)
	if err != nil {
		return err
	}
	defer s.Close()
	channels, err := jobs(s)
	if err != nil {
		return err
	}
	h := handlers.NewRegistry(channels, handlers.Config{})
	handlers.React(h, "jobs", func(ctx context.Context, _ job) error {
		e, _, _ := channel.Handled(ctx)
		fmt.Println("handled", e.ID)
		return nil
	})
	w, err := worker.New(h, worker.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: limiters.Pauses(limiters.PausesConfig{})}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func jobs(s *storage.Store) (*channel.Channels, error) {
	routes, err := channel.NewRoutes(channel.Command[job]("jobs"))
	if err != nil {
		return nil, err
	}
	return channel.New(s, routes, "/test")
}

// openPlace opens a file, or "azure:" and an account, with a doorbell.
func openPlace(ctx context.Context, place string) (*storage.Store, error) {
	account, ok := strings.CutPrefix(place, "azure:")
	if !ok {
		return sqlite.Open(ctx, place)
	}
	inner, err := azure.Open(ctx, account)
	if err != nil {
		return nil, err
	}
	d, err := doorbell.Over(inner, doorbell.Config{Listen: "127.0.0.1:"})
	if err != nil {
		return nil, err
	}
	return d.Store, nil
}

// A process is a worker of its own.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startWorker(t *testing.T, place string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "MILLRACE_PAUSED_CHILD="+place), os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.lines = bufio.NewScanner(out)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// until reads the process's lines until one has this text, and returns how many jobs it has handled before that.
func (p *process) until(t *testing.T, text string) (handled int) {
	t.Helper()
	for p.lines.Scan() {
		switch line := p.lines.Text(); {
		case strings.Contains(line, text):
			return handled
		case strings.HasPrefix(line, "handled "):
			handled++
		}
	}
	t.Errorf("a process ended before it said %q", text)
	return handled
}

// An operator pauses a queue of real processes. The pause holds when one of them is killed and another one starts, and
// ends in all when the operator resumes the queue.
func testProcesses(t *testing.T, place string) {
	t.Parallel()
	s, err := openPlace(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	operator, err := pause.New(s, pause.Config{})
	if err != nil {
		t.Fatal(err)
	}
	channels, err := jobs(s)
	if err != nil {
		t.Fatal(err)
	}
	const isPaused = "queue is paused: nothing is taken off it"
	first, second := startWorker(t, place), startWorker(t, place)
	for _, p := range []*process{first, second} {
		p.until(t, "worker consumes")
	}
	began := time.Now()
	if err := operator.Pause(t.Context(), []string{"jobs"}, 0, pause.Note{By: "ada", Why: "no mail server"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{first, second} {
		p.until(t, "queue is paused by hand")
	}
	t.Logf("two processes know of the pause within %v", time.Since(began))
	for _, p := range []*process{first, second} {
		p.until(t, isPaused)
	}
	const sent = 5
	for range sent {
		if err := channels.Send(t.Context(), job{}); err != nil {
			t.Fatal(err)
		}
	}
	first.kill()
	third := startWorker(t, place)
	third.until(t, isPaused)
	worldtest.Want(t, "messages in the paused queue", worldtest.Queued(t, s, "jobs"), sent)
	if err := operator.Resume(t.Context(), "jobs"); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*process{"second": second, "third": third} {
		if n := p.until(t, "queue is not paused by hand any more"); n != 0 {
			t.Errorf("the %s process has handled %d jobs in the pause", name, n)
		}
	}
	worldtest.Eventually(t, func() error {
		if n := worldtest.Queued(t, s, "jobs"); n > 0 {
			return fmt.Errorf("the queue holds %d messages", n)
		}
		return nil
	})
	handled := 0
	for _, p := range []*process{second, third} {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		handled += p.until(t, "worker stopped")
	}
	worldtest.Want(t, "jobs handled after the pause", handled, sent)
}

func TestProcesses(t *testing.T) { testProcesses(t, filepath.Join(t.TempDir(), "test.db")) }

func TestProcessesOnAzure(t *testing.T) {
	testProcesses(t, "azure:"+azuretest.Place(t, azurite, azure.Wipe))
}
