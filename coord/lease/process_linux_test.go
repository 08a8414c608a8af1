package lease_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const childTTL = 3 * time.Second

func TestMain(m *testing.M) {
	if url := os.Getenv("MILLRACE_LEASE_CHILD"); url != "" {
		os.Exit(child(url))
	}
	os.Exit(m.Run())
}

// child is the program of another process. It acquires the lease, writes the document, and writes it again for each
// line of standard input. Then it tells what came of it.
func child(url string) int {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := lease.Acquire(ctx, s, name, lease.Config{TTL: childTTL, Holder: "child"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	write := func() {
		_, err := l.Blobs(s.Blobs("docs")).Put(ctx, key, []byte("child"), storage.Condition{})
		switch {
		case err == nil:
			fmt.Println("written", l.Fence())
		case errors.Is(err, lease.ErrFenced):
			<-l.Context().Done()
			fmt.Println("fenced", l.Fence(), errors.Is(context.Cause(l.Context()), lease.ErrLost))
		default:
			fmt.Println(err)
		}
	}
	write()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		write()
	}
	if err := errors.Join(l.Release(ctx), s.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A process stands still for longer than its TTL. Another takes the lease over and writes. The first one goes on, and
// its write is refused.
func TestAProcessThatIsStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	url := filepath.Join(t.TempDir(), "test.db")
	p := agreetest.Start(t, "MILLRACE_LEASE_CHILD="+url)
	p.Says("written 1")
	p.Signal(syscall.SIGSTOP)
	s, err := sqlite.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lease.Acquire(t.Context(), s, name, lease.Config{TTL: childTTL})
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, l.Blobs(s.Blobs("docs")), "parent"); err != nil {
		t.Error(err)
	}
	p.Signal(syscall.SIGCONT)
	if _, err := io.WriteString(p.In, "again\n"); err != nil {
		t.Error(err)
	}
	p.Says("fenced 1 true")
	wantDocument(t, s.Blobs("docs"), "parent", 2)
	release(t, l)
	p.Stop()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
