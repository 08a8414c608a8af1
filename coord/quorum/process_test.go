package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// holderEnv makes the test program a process that holds a lock over the files in a folder, until its input ends.
const holderEnv = "MILLRACE_TEST_QUORUM"

func TestMain(m *testing.M) {
	dir := os.Getenv(holderEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := runHolder(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

const realTTL = 3 * time.Second

func runHolder(dir string) error {
	ctx := context.Background()
	stores, err := openFiles(ctx, dir)
	if err != nil {
		return err
	}
	l, err := quorum.Acquire(ctx, stores, name, quorum.Config{TTL: realTTL})
	if err != nil {
		return err
	}
	fmt.Println("fence", l.Fence())
	<-l.Context().Done()
	fmt.Println("ended", errors.Is(context.Cause(l.Context()), quorum.ErrLost))
	return l.Release(ctx)
}

func openFiles(ctx context.Context, dir string) (stores []*storage.Store, err error) {
	for i := range 3 {
		s, err := sqlite.Open(ctx, filepath.Join(dir, fmt.Sprintf("%d.db", i)))
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
	}
	return stores, nil
}

// The holder's process is stopped, and another one gets the lock with a larger fence. When it goes on, it learns that
// its lock is lost, and its release takes nothing from the other one.
func TestAStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	dir := t.TempDir()
	stores, err := openFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		defer func() { _ = s.Close() }()
	}
	p := agreetest.Start(t, holderEnv+"="+dir)
	text, _ := strings.CutPrefix(p.Read(), "fence ")
	fence, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGSTOP)
	if _, err := syscall.Wait4(p.ID(), nil, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	l, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: realTTL})
	if err != nil {
		t.Fatal(err)
	}
	if l.Fence() <= fence {
		t.Errorf("fence %d after %d", l.Fence(), fence)
	}
	p.Signal(syscall.SIGCONT)
	p.Says("ended true")
	p.Stop()
	if _, err := quorum.Try(t.Context(), stores, name, quorum.Config{TTL: realTTL}); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("after the other one's release: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkLock(b *testing.B) {
	stores, err := openFiles(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range stores {
		defer func() { _ = s.Close() }()
	}
	for b.Loop() {
		l, err := quorum.Acquire(b.Context(), stores, name, quorum.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
