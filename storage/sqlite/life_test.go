//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// forget lets a life look again, however soon.
func (l *life) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = time.Time{}
}

// lookAgain lets the store look for dead processes at its next receive, however soon.
func lookAgain(s *store) *store {
	s.life.forget()
	return s
}

// lives lists the files of the stores that have shown themselves, dead ones included.
func lives(t *testing.T, s *store) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.path+"-wake", lifeMark+"*"))
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

// kill kills the process, and returns once it has ended.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Wait()
}

// wantHeld demands that so many messages are in flight and that none can be received, however often a store looks.
func wantHeld(t *testing.T, s *store, n int64) {
	t.Helper()
	for range 3 {
		if got := receive(t, lookAgain(s), "queue", 10); len(got) != 0 {
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
	receive(t, lookAgain(s), "other", 1) // any queue will do
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
	if left := lives(t, s); len(left) != 2 {
		t.Errorf("files %q; want those of the two who live and have sent or claimed", left)
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
	if got := receive(t, lookAgain(s), "queue", 10); len(got) != 2 {
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
	if left := lives(t, s); len(left) != 1 {
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
	if got := receive(t, lookAgain(s), "queue", 10); len(got) != 2 {
		t.Errorf("received %d; want the 2 that only the dead one held", len(got))
	}
	wantHeld(t, s, 4)
}

// A message that may have killed its consumers is not released: it would kill again, sooner.
func TestClaimsOfAKiller(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "killer")
	for range lifeTrust {
		d := receive(t, s, "queue", 1)[0]
		if _, err := s.Queue("queue").Extend(t.Context(), d.Receipt, 0); err != nil {
			t.Fatal(err)
		}
	}
	send(t, s, "queue", "victim")
	p, _ := holder(t, s, 2)
	p.kill()
	if got := receive(t, lookAgain(s), "queue", 10); len(got) != 1 || string(got[0].Body) != "victim" {
		t.Errorf("received %d messages; want the victim", len(got))
	}
	wantHeld(t, s, 2)
}

// A store shows itself again after its file was removed. A store that watches the folder receives signs again,
// although an open file keeps the removed folder alive.
func TestFolderIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s, other := openAt(t, path, ""), openAt(t, path, "")
	ring, stop := wake(s, "queue")
	defer stop()
	<-ring
	sign := filepath.Join(path+"-wake", s.beacon.own)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	until := func(what string, done func() bool) {
		t.Helper()
		for limit := time.After(time.Minute); !done(); {
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("after a minute: %s", what)
			}
		}
	}
	signed := func() bool { _, err := os.Lstat(sign); return err == nil }
	until("no sign", signed)
	send(t, other, "queue", "first")
	if got := receive(t, s, "queue", 1); len(got) != 1 {
		t.Fatalf("received %d messages; want 1", len(got))
	}
	if n := len(lives(t, s)); n != 2 {
		t.Fatalf("%d show themselves; want 2", n)
	}
	until("it can't be removed", func() bool { return os.RemoveAll(path+"-wake") == nil }) // a sign may be just coming
	until("the one that hears gives no sign", signed)
	until("it doesn't show itself", func() bool { return len(lives(t, s)) > 0 })
	wantHeld(t, other, 1)
}

// Without its file a process is not known to be dead.
func TestClaimsWithoutALife(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	send(t, s, "queue", "a")
	p, _ := holder(t, s, 1)
	for _, name := range lives(t, s) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	wantHeld(t, s, 1)

	folderless := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(folderless+"-wake", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, folderless, "")
	send(t, s, "queue", "a")
	d := receive(t, s, "queue", 1)
	if e, ok := parseReceipt(d[0].Receipt); !ok || e.gen >= lifeGen {
		t.Errorf("receipt %q; want one that shows nobody", d[0].Receipt)
	}
	wantHeld(t, s, 1)
}

func numbered(n int64) *life {
	l := &life{}
	l.first.Do(func() {})
	l.number.Store(n)
	return l
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	for _, number := range []int64{1, 2, lifeNumbers - 1} {
		l := numbered(number)
		for range 1000 {
			gen := l.gen()
			if gen < lifeGen || (gen-lifeGen)/lifeRandom != number {
				t.Fatalf("generation %d is not of number %d", gen, number)
			}
			if next := l.next(gen); next != gen+1 {
				t.Fatalf("%d is extended to %d", gen, next)
			}
		}
		for _, foreign := range []int64{newGen(), numbered(number%7 + 1000).gen()} {
			if next := l.next(foreign); (next-lifeGen)/lifeRandom != number {
				t.Errorf("extending %d gives %d, not of number %d", foreign, next, number)
			}
		}
	}
	nobody := &life{}
	nobody.first.Do(func() {})
	for range 1000 {
		if gen := nobody.gen(); gen >= lifeGen || nobody.next(gen) >= lifeGen {
			t.Fatalf("generation %d shows somebody", gen)
		}
	}
}

// Stores come, go and die while others look. A store that is there is never taken for dead, and each dead one is
// found once.
func TestLivesByChance(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var (
		mu          sync.Mutex
		there       = map[int64]bool{} // by number; under mu
		found       = map[int64]int{}  // how often each dead store was found; under mu
		gone        = make(chan struct{})
		comers, all sync.WaitGroup
	)
	for range 3 {
		all.Go(func() {
			l := newLife(newFolder(db))
			for last := false; !last; {
				select {
				case <-gone:
					last = true
				default:
				}
				l.forget()
				for _, g := range l.dead() {
					mu.Lock()
					if there[g.number] {
						t.Errorf("number %d is there and was taken for dead", g.number)
					}
					if n, died := found[g.number]; died { // other files were found before their stores had locked them
						found[g.number] = n + 1
					}
					mu.Unlock()
					g.close(true)
				}
			}
		})
	}
	for range 4 {
		comers.Go(func() {
			for i := range 200 {
				l := newLife(newFolder(db))
				l.show()
				if l.number.Load() == 0 {
					continue // another store looked at that moment, three times
				}
				mu.Lock()
				there[l.number.Load()] = true
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				delete(there, l.number.Load())
				if i%2 == 0 {
					found[l.number.Load()] = 0
				}
				mu.Unlock()
				if i%2 == 0 {
					l.file.Close() // as the end of its process would
				} else {
					l.close()
				}
			}
		})
	}
	comers.Wait()
	close(gone)
	all.Wait()
	if len(found) < 100 {
		t.Errorf("%d died; too few to tell", len(found))
	}
	for number, n := range found {
		if n != 1 {
			t.Errorf("number %d died once and was found %d times", number, n)
		}
	}
	if left, err := os.ReadDir(db + "-wake"); len(left) != 0 || err != nil {
		t.Errorf("files %v of the dead are left, %v", left, err)
	}
}
