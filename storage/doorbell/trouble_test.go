package doorbell

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// TestBlocked can't open its socket: rings work only within the process, and one log record says so.
func TestBlocked(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var log lines
	var calls storagetest.Calls
	s := put(t, storagetest.Intercept(plain(t, filepath.Join(t.TempDir(), "test.db")), calls.Hook),
		Config{Listen: taken.LocalAddr().String(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, quick())
	first := s.Listen("first")
	defer first.Close()
	until(t, "a line in the log", func() bool { return log.String() != "" })
	second := s.Listen("second")
	defer second.Close()
	send(t, s, "first")
	wantRing(t, first.Rings(), "a send of this process")
	send(t, s, "second")
	wantRing(t, second.Rings(), "a send of this process")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "can't listen for rings") {
		t.Errorf("the log has\n%s\nwant one warning", got)
	}
	if n := calls.Count("put row", "delete row"); n != 0 {
		t.Errorf("%d rows written for a process that can't listen", n)
	}
}

// TestTableFails checks that sends go on, and that each process logs one record.
func TestTableFails(t *testing.T) {
	t.Parallel()
	var log lines
	var mu sync.Mutex
	failed, broken := 0, true
	path := filepath.Join(t.TempDir(), "test.db")
	inner := storagetest.Intercept(plain(t, path), func(ctx context.Context, op storagetest.Op, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if broken && op.Name != "send" {
			failed++
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	p := quick()
	p.retry = time.Millisecond
	s := put(t, inner, Config{Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))}, p)
	sub := s.Listen("watched")
	defer sub.Close()
	until(t, "a few failures of each sort", func() bool {
		send(t, s, "elsewhere")
		mu.Lock()
		defer mu.Unlock()
		return failed > 10 && strings.Contains(log.String(), "can't write this process's row") && strings.Contains(log.String(), "can't read")
	})
	if got := log.String(); strings.Count(got, "can't write this process's row") != 1 || strings.Count(got, "can't read") != 1 || strings.Count(got, "\n") != 2 {
		t.Errorf("the log has\n%s\nwant one line about writing and one about reading", got)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	b := put(t, plain(t, path), loopback(), quick())
	listeners(t, b, 1)
	send(t, b, "watched")
	wantRing(t, sub.Rings(), "the table works again")
}
