package sqlite

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A process that a signal stops within a transaction keeps the others from writing, but not from reading. They say
// which process it is. When it goes on, so do they.
func TestAProcessStopsWithinATransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	p := start(t, "stand", path+"?wake=off")
	if got := p.read(1); len(got) != 1 || got[0] != "in a transaction" {
		t.Fatalf("the process said %q", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "the process is not stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	name := fmt.Sprintf("process %d ", p.cmd.Process.Pid)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		opened, err := Driver.Open(t.Context(), path+"?wake=off", storage.OpenConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		look := Standstill(path)
		look()
		wantError(t, opened.Queue("queue").Send(t.Context(), text("mine")), storage.ErrUnavailable, name)
		if _, err := opened.Queue("queue").Stats(t.Context()); err != nil {
			t.Errorf("a read: %v", err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, name) {
			t.Errorf("it logged %q, want a line that names the process", got)
		}
		if who, lasted := look(); !strings.HasPrefix(who, name) || lasted < 10*time.Second {
			t.Errorf("it saw %q for %v", who, lasted)
		}
	})
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.stop()
	s := openAt(t, path, "")
	send(t, s, "queue", "mine")
	if got := all(t, s, "queue"); len(got) != 2 {
		t.Errorf("got %q, want the other's message and mine", got)
	}
	if who, _ := Standstill(path)(); who != "" {
		t.Errorf("after that it saw %q", who)
	}
}
