//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// lookNow lets the store look for dead processes, however soon after its last look.
func lookNow(s *store) *store {
	s.peers.Check(context.Background())
	return s
}

// presenceFiles lists the files of the stores that have announced themselves, dead ones included.
func presenceFiles(t *testing.T, s *store) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.path+"-wake", "process-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// holder starts a process that claims n messages, and returns their receipts.
func holder(t *testing.T, s *store, n int) (p *process, receipts []storage.Receipt) {
	t.Helper()
	p = start(t, "hold", s.path)
	for _, line := range p.read(n) {
		receipts = append(receipts, storage.Receipt(line))
	}
	if len(receipts) != n {
		t.Fatalf("the other process claimed %d messages: %q; want %d", len(receipts), receipts, n)
	}
	return p, receipts
}

// wantHeld demands that so many messages are in flight and that none can be received, however often a store looks.
func wantHeld(t *testing.T, s *store, n int64) {
	t.Helper()
	for range 3 {
		if got := receive(t, lookNow(s), "queue", 10); len(got) != 0 {
			t.Fatalf("received %q; want nothing", got[0].Body)
		}
	}
	st, err := s.Queue("queue").Stats(t.Context())
	if err != nil || st.InFlight != n || st.Ready != 0 {
		t.Errorf("stats: %+v, %v; want %d in flight", st, err, n)
	}
}

func TestClaimsOfTheDead(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	waiting := openAt(t, s.path, "")
	send(t, s, "queue", "held by one who lives", "held by one who can't show it")
	receive(t, waiting, "queue", 1)
	receive(t, openAt(t, s.path, "?wake=off"), "queue", 1)
	want := []string{"a", "b", "c", "d", "e", "f", "g"}
	send(t, s, "queue", want...)
	p, dead := holder(t, s, len(want))
	wantHeld(t, s, 2+int64(len(want)))

	ring, stop := wake(waiting, "queue")
	defer stop()
	<-ring
	p.kill()
	lookNow(s)
	select {
	case <-ring:
	case <-time.After(time.Minute):
		t.Error("nobody rang")
	}
	var bodies []string
	for _, d := range receive(t, waiting, "queue", 10) {
		bodies = append(bodies, string(d.Body))
		if d.Deliveries != 2 {
			t.Errorf("%s: %d deliveries; want 2: the dead one's counts", d.Body, d.Deliveries)
		}
	}
	if slices.Sort(bodies); !slices.Equal(bodies, want) {
		t.Errorf("received %q; want %q", bodies, want)
	}
	var stale *storage.StaleError
	if err := s.Queue("queue").Delete(t.Context(), dead); !errors.As(err, &stale) || len(stale.Receipts) != len(dead) {
		t.Errorf("delete by the dead one's receipts: got %v; want all of them stale", err)
	}
	if left := presenceFiles(t, s); len(left) != 2 {
		t.Errorf("files %q; want those of the two who live and have sent or claimed", left)
	}
}

// A store without consumers that wait finds a dead process's messages as it receives.
func TestReceiveReleasesClaimsOfTheDead(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "held")
	p, _ := holder(t, s, 1)
	p.kill()
	var got []storage.Delivery
	until(t, "the message can't be received", func() bool {
		receive(t, s, "other", 1) // any queue will do
		got = receive(t, s, "queue", 1)
		return len(got) == 1
	})
	if got[0].Deliveries != 2 {
		t.Errorf("%d deliveries; want 2", got[0].Deliveries)
	}
}

// A store that listens announces itself before it claims anything.
func TestListenAnnounces(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	if n := len(presenceFiles(t, s)); n != 0 {
		t.Fatalf("%d presence files before anybody listens", n)
	}
	_, stop := wake(s, "queue")
	defer stop()
	if n := len(presenceFiles(t, s)); n != 1 {
		t.Errorf("%d presence files; want 1", n)
	}
}

// An idle process that only waits for rings also gets a ring for a dead process's messages.
func TestClaimsOfTheDeadRing(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	ring, stop := wake(s, "queue")
	defer stop()
	send(t, s, "queue", "held")
	p, _ := holder(t, s, 1)
	for len(ring) > 0 {
		<-ring
	}
	p.kill()
	limit := time.After(time.Minute)
	for {
		select {
		case <-ring: // perhaps for a message that the other process sent
		case <-limit:
			t.Fatal("no ring for the message of a dead process")
		}
		if st, err := s.Queue("queue").Stats(t.Context()); err != nil {
			t.Fatal(err)
		} else if st.Ready == 1 {
			return
		}
	}
}

func TestClaimsOfTheStopped(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "a", "b")
	p, _ := holder(t, s, 2)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, s, 2)
	p.kill()
	if got := receive(t, lookNow(s), "queue", 10); len(got) != 2 {
		t.Errorf("received %d; want 2", len(got))
	}
}

// A store that was closed is not dead and keeps its claims. So does a store that is open in the same process.
func TestClaimsOfTheClosed(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	other := openAt(t, s.path, "")
	send(t, s, "queue", "a", "b")
	got := receive(t, other, "queue", 1)
	p, _ := holder(t, s, 1)
	wantHeld(t, s, 2)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if left := presenceFiles(t, s); len(left) != 1 {
		t.Errorf("files %q; want that of the one that is open", left)
	}
	wantHeld(t, s, 2)
	if err := s.Queue("queue").Delete(t.Context(), []storage.Receipt{got[0].Receipt}); err != nil {
		t.Error(err)
	}
}

// A claim belongs to the store that extended it last, not to the one that received the message. A rewritten message
// belongs to no store: its delay goes on.
func TestClaimsChangedByAnother(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "a", "b", "c", "d", "e")
	p, receipts := holder(t, s, 5)
	for _, r := range receipts[:2] {
		if _, err := s.Queue("queue").Extend(t.Context(), r, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Queue("queue").Rewrite(t.Context(), receipts[2], []byte("later"), time.Hour); err != nil {
		t.Fatal(err)
	}
	p.kill()
	if got := receive(t, lookNow(s), "queue", 10); len(got) != 2 {
		t.Errorf("received %d; want the 2 that only the dead one held", len(got))
	}
	wantHeld(t, s, 4)
}

// A message that may have killed its consumers is not released: it would kill again, sooner.
func TestClaimsOfAKiller(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "killer")
	for range claimTrust {
		d := receive(t, s, "queue", 1)[0]
		if _, err := s.Queue("queue").Extend(t.Context(), d.Receipt, 0); err != nil {
			t.Fatal(err)
		}
	}
	send(t, s, "queue", "victim")
	p, _ := holder(t, s, 2)
	p.kill()
	if got := receive(t, lookNow(s), "queue", 10); len(got) != 1 || string(got[0].Body) != "victim" {
		t.Errorf("received %d messages; want the victim", len(got))
	}
	wantHeld(t, s, 2)
}

// Without its file a process is not known to be dead.
func TestClaimsWithoutAPresenceFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "a")
	p, _ := holder(t, s, 1)
	for _, name := range presenceFiles(t, s) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	wantHeld(t, s, 1)
}
