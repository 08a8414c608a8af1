package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// subscriber starts processes that subscribe to a topic, and a store that publishes to them.
func subscriber(t *testing.T, n int) (*storage.Store, string, []*process) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var list []*process
	for range n {
		p := start(t, "subscribe", path)
		if got := p.read(1); !slices.Equal(got, []string{"ready"}) {
			t.Fatalf("a process said %q", got)
		}
		list = append(list, p)
	}
	return s, path, list
}

// publishEach publishes to all until so many have received it: a process may be too slow to answer in time.
func publishEach(t *testing.T, s *storage.Store, data string, want int) {
	t.Helper()
	until(t, fmt.Sprintf("published to %d", want), func() bool {
		n, err := s.Publish(t.Context(), "topic", []byte(data), false)
		if n > want || err != nil {
			t.Fatalf("received by %d, error %v; want %d", n, err, want)
		}
		return n == want
	})
}

// publishOne publishes to one until somebody has received it. It returns false if somebody may have: a busy machine
// lets a process wait for longer than its answer is waited for.
func publishOne(t *testing.T, s *storage.Store, data string) (received bool) {
	t.Helper()
	until(t, "published to one", func() bool {
		n, err := s.Publish(t.Context(), "topic", []byte(data), true)
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Fatal(err)
		}
		received = n == 1
		return received || err != nil
	})
	return received
}

// A publication reaches other processes: one of them, or each.
func TestPublishAcrossProcesses(t *testing.T) {
	t.Parallel()
	s, _, list := subscriber(t, 3)
	publishEach(t, s, "first", len(list))
	const publications = 60
	var took []time.Duration
	received := make([]bool, publications)
	for i := range publications {
		began := time.Now()
		received[i] = publishOne(t, s, fmt.Sprint("one", i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("one of three processes published: p50 %v, worst %v", took[publications/2], took[publications-1])
	times := map[string]int{}
	for _, p := range list {
		lines := p.stop()
		if len(lines) < 2 { // the first, and by chance one of the others: else once in 10^9
			t.Errorf("a process received %q", lines)
		}
		for _, data := range lines {
			times[data]++
		}
	}
	for i := range publications {
		if n := times[fmt.Sprint("one", i)]; n > 1 || n == 0 && received[i] {
			t.Errorf("publication %d to one was received %d times", i, n)
		}
	}
	publishEach(t, s, "last", 0)
}

// A killed process costs no error, and its socket is removed.
func TestHearerIsKilled(t *testing.T) {
	t.Parallel()
	s, path, list := subscriber(t, 3)
	publishEach(t, s, "all", 3)
	list[0].kill()
	publishEach(t, s, "rest", 2)
	publishOne(t, s, "one")
	if names, err := filepath.Glob(path + "-wake/ear-*"); len(names) != 2 || err != nil {
		t.Errorf("sockets %q, %v; want those of the living", names, err)
	}
}

// suspend stops a process, and returns when all its threads stand still.
func suspend(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("status %v, %v; want a stopped process", status, err)
		}
		return
	}
}

// A stopped process is never chosen: another process gets what is for one.
func TestHearerIsStopped(t *testing.T) {
	t.Parallel()
	s, _, list := subscriber(t, 2)
	publishEach(t, s, "all", 2)
	suspend(t, list[0])
	for i := range 4 {
		publishOne(t, s, fmt.Sprint("one", i))
	}
	publishEach(t, s, "rest", 1)
	if err := list[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	publishEach(t, s, "again", 2)
	for _, data := range list[0].stop() {
		if data != "all" && data != "rest" && data != "again" {
			t.Errorf("the stopped process got %q, which was published to one", data)
		}
	}
}

// A publication that a context ends says so.
func TestPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, _, list := subscriber(t, 1)
	suspend(t, list[0])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if n, err := s.Publish(ctx, "topic", nil, false); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("received by %d, error %v", n, err)
	}
}
