//go:build unix

package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if id := os.Getenv("MILLRACE_BULK_CHILD"); id != "" {
		os.Exit(child(id, os.Getenv("MILLRACE_BULK_STORE")))
	}
	os.Exit(m.Run())
}

// realTTL is short, so that another process follows soon. It is long enough for a page on a busy machine.
const realTTL = time.Second

// child is the program of another process: it does an act, and prints a line for each entry.
func child(id, path string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pages := make(chan struct{})
	go func() { // each byte is leave for a page; the end of the input ends the process
		defer stop()
		for one := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(one); err != nil {
				return
			}
			select {
			case pages <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	moved := func(bulk.Act) {
		fmt.Println("moved")
		select {
		case <-pages:
		case <-ctx.Done():
		}
	}
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	routes, err := channel.NewRoutes()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := channel.New(s, routes, act.Source)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	d := &bulk.Driver{Channels: c, TTL: realTTL, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	for {
		_, err = d.Follow(ctx, id, bulk.Follower{Settled: func(e poisonEntry, _ error) { fmt.Println(e.ID) }, Moved: moved})
		if !errors.Is(err, storage.ErrUnavailable) { // the machine is busy
			break
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// goOn gives a process leave for a page, so the test knows that it hasn't done more.
func goOn(p *agreetest.Process) { _, _ = p.In.Write([]byte{'.'}) } // it may have been killed

// Twenty processes are killed while they do one act on 10,000 messages. Each message is in its queue once, no other one
// is, and the counts and the audit log are right.
func TestLawKilledProcessesSendEachMessageOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("kills twenty processes")
	}
	t.Parallel()
	const n, kills = 10_000, 20
	path := filepath.Join(t.TempDir(), "test.db")
	s := worldtest.OpenAt(t, path)
	l := newLab(t, s)
	began := time.Now()
	want := l.poison(t, n)
	put(t, s, entry(queue, "other", "worse"))
	id := l.ask(t, bulk.Retry, bulk.Filter{Reason: "bad"}).ID
	put(t, s, entry(queue, "later", "bad"))
	t.Logf("%d poison messages are made after %v", n, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	for range kills {
		p := agreetest.Start(t, "MILLRACE_BULK_CHILD="+id, "MILLRACE_BULK_STORE="+path)
		for at := 1 + rand.IntN(300); at > 0; { // anywhere
			if p.Read() != "moved" {
				at--
			} else {
				goOn(p)
			}
		}
		p.Signal(syscall.SIGKILL)
		p.Kill()
	}
	a, err := bulk.Get(t.Context(), s, id)
	if err != nil || a.Over() || a.Looked == 0 {
		t.Fatalf("after the kills: got %+v, %v; want it under way", a, err)
	}
	t.Logf("after %d kills, %d are counted", kills, a.Done)
	last := agreetest.Start(t, "MILLRACE_BULK_CHILD="+id, "MILLRACE_BULK_STORE="+path)
	for line := range last.Lines { // until it ends
		if line == "moved" {
			goOn(last)
		}
	}
	t.Logf("the act took %v", time.Since(began).Round(time.Millisecond))
	got := l.sent(t)
	if !slices.Equal(got, want) {
		t.Errorf("got %d messages, %d different ones; want each of %d once", len(got), len(slices.Compact(slices.Clone(got))), len(want))
	}
	wantIDs(t, "left", l.left(), []string{"later", "other"})
	l.ended(t, id, bulk.Done, n)
}
