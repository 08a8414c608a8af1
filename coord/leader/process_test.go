//go:build unix

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if holder := os.Getenv("MILLRACE_LEADER_CHILD"); holder != "" {
		os.Exit(child(holder, os.Getenv("MILLRACE_LEADER_STORE")))
	}
	os.Exit(m.Run())
}

// realTTL is the shortest there is.
const realTTL = 3 * time.Second

// child is the program of another process: a candidate that tells on standard output what happens to it, until standard
// input ends. After the end of a term it tries to write once more, as a program would that doesn't look at its context.
func child(holder, path string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	open := sqlite.Open
	if strings.HasPrefix(path, "redis:") {
		open = redis.Open
	}
	s, err := open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("stands")
	err = leader.Run(ctx, s, name, leader.Config{TTL: realTTL, Holder: holder}, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leads", term.Number)
		ledger := term.Blobs(s.Blobs("books"))
		write := func() {
			_, err := ledger.Put(context.WithoutCancel(ctx), "ledger", []byte(holder), storage.Condition{})
			switch {
			case errors.Is(err, lease.ErrFenced):
				fmt.Println("fenced", term.Number)
			case err != nil:
				fmt.Println(err)
			default:
				fmt.Println("wrote", term.Number)
			}
		}
		write()
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), lease.ErrLost) {
			fmt.Println("lost", term.Number)
			write()
		}
		return ctx.Err()
	})
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("stopped")
	return 0
}

func start(t *testing.T, holder, path string) *agreetest.Process {
	t.Helper()
	p := agreetest.Start(t, "MILLRACE_LEADER_CHILD="+holder, "MILLRACE_LEADER_STORE="+path)
	p.Says("stands")
	return p
}

// A process is killed while it leads, the next one follows, and hands over to a third when it stops.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a := start(t, "a", path)
	a.Says("leads 1")
	a.Says("wrote 1")
	b := start(t, "b", path)
	began := time.Now()
	a.Signal(syscall.SIGKILL)
	b.Says("leads 2")
	t.Logf("with a TTL of %v a killed leader was followed after %v", realTTL, time.Since(began).Round(time.Millisecond))
	b.Says("wrote 2")
	c := start(t, "c", path)
	heard(t, path)
	began = time.Now()
	if err := b.In.Close(); err != nil {
		t.Error(err)
	}
	c.Says("leads 3")
	t.Logf("a leader that stopped handed over within %v", time.Since(began).Round(time.Millisecond))
	b.Says("stopped")
	c.Says("wrote 3")
	if err := c.In.Close(); err != nil {
		t.Error(err)
	}
	c.Says("stopped")
}

// heard waits until the third process is known to wait, so that a hand-over finds it.
func heard(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		for info, err := range lease.List(t.Context(), s, nil) {
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range info.Waiters {
				if w.Holder == "c" {
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("after a minute the third process doesn't wait")
		}
	}
}

// A leader that was stopped for longer than its term finds its context ended when it goes on. Its write is refused
// then, because the next one has written before.
func TestLawALeaderThatSleptIsFenced(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a := start(t, "a", path)
	a.Says("leads 1")
	a.Says("wrote 1") // no transaction is open now, and none begins before the renewal in a second
	b := start(t, "b", path)
	a.Signal(syscall.SIGSTOP)
	b.Says("leads 2")
	b.Says("wrote 2")
	a.Signal(syscall.SIGCONT)
	a.Says("lost 1")
	a.Says("fenced 1")
	if err := b.In.Close(); err != nil {
		t.Error(err)
	}
	b.Says("stopped")
	a.Says("leads 3") // it stood again
	a.Says("wrote 3")
	if err := a.In.Close(); err != nil {
		t.Error(err)
	}
	a.Says("stopped")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if d, err := lease.Read(t.Context(), s.Blobs("books"), "ledger"); err != nil || string(d.Content) != "a" || d.Fence != 3 {
		t.Errorf("the ledger: %+v, %v", d, err)
	}
	if who, err := leader.Current(t.Context(), s, name); err != nil || who.Holder != "" || who.Term != 3 {
		t.Errorf("the present leader: %+v, %v", who, err)
	}
}
