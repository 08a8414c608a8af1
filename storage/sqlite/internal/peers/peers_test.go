package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/flock"
)

// A world is a driver's side of some Peers.
type world struct {
	*Peers
	rings chan struct{} // of capacity 1
	once  sync.Once     // of Close

	mu       sync.Mutex
	rang     int // how often RingAll was called
	asked    int // likewise, HasChanged
	lost     int // likewise, Lost
	serving  int // calls of Serve under way
	served   int // the most of them at a time
	log      bytes.Buffer
	changed  bool
	failing  error
	released [][2]int64
}

func (w *world) Close() { w.once.Do(w.Peers.Close) }

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

// logged returns what was logged.
func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// releases returns the ranges of generations that were to be released since the last call.
func (w *world) releases() [][2]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.released
	w.released = nil
	return list
}

func newDatabase(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return db
}

// newWorld returns new Peers, open until the end of the test.
func newWorld(t *testing.T, db string) *world {
	t.Helper()
	w := &world{rings: make(chan struct{}, 1)}
	w.Peers = New(Config{
		Database: db,
		Logger:   slog.New(slog.NewTextHandler(w, nil)),
		RingAll: func() {
			w.set(func() { w.rang++ })
			select {
			case w.rings <- struct{}{}:
			default:
			}
		},
		HasChanged: func() (changed bool) {
			w.set(func() {
				w.asked++
				changed, w.changed = w.changed, false
			})
			return changed
		},
		Release: func(_ context.Context, first, last int64) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.released = append(w.released, [2]int64{first, last})
			return w.failing
		},
		Serve: func(ctx context.Context, conn net.Conn) {
			w.set(func() {
				w.serving++
				w.served = max(w.served, w.serving)
			})
			defer w.set(func() { w.serving-- })
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			io.Copy(conn, conn)
		},
		Lost: func() { w.set(func() { w.lost++ }) },
	})
	t.Cleanup(w.Close)
	return w
}

// die ends a store as the end of its process would.
func (w *world) die() { w.presence.file.Close() }

// ring waits for a ring.
func (w *world) ring(t *testing.T) {
	t.Helper()
	select {
	case <-w.rings:
	case <-time.After(time.Minute):
		t.Fatal("nothing rang for a minute")
	}
}

// until waits until done, a minute at most. missing says what is missing till then.
func until(t *testing.T, missing string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after a minute: %s", missing)
		}
	}
}

// files lists the files with a prefix in the folder.
func files(t *testing.T, db, prefix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(db+"-wake", prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func needLocks(t *testing.T) {
	t.Helper()
	if !flock.Works {
		t.Skip("files can't be locked here")
	}
}

// A signal rings the consumers of the other stores, once, and not the store's own. A watcher's checks ring, too. So a
// try that lasted until the first check proves nothing.
func TestSignalRingsOthersOnly(t *testing.T) {
	t.Parallel()
	for range 100 {
		began := time.Now()
		again := ringsTwice(t)
		if time.Since(began) < lookEvery {
			if again {
				t.Error("a second ring for one signal of another store")
			}
			return
		}
	}
	t.Error("each try took until the first check")
}

// ringsTwice reports that a store rang more than once for one signal of another.
func ringsTwice(t *testing.T) bool {
	t.Helper()
	db := newDatabase(t)
	a, b := newWorld(t, db), newWorld(t, db)
	defer a.Close()
	defer b.Close()
	b.signals.give() // the first signal would be two events, of the folder and of the file
	a.signals.give()
	a.Watch()
	b.Watch()
	a.ring(t) // for b's signal to itself, by which it learns that signals arrive
	a.Signal()
	b.ring(t)
	b.Signal() // the folder's events come in order: after this one, an own one would have arrived
	a.ring(t)
	select {
	case <-a.rings:
		return true
	default:
		return false
	}
}

// A signal file that was removed is made again by the next signal. Files of processes that are long dead are removed.
func TestSignalFileIsMadeAgain(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := newWorld(t, db), newWorld(t, db)
	b.Watch()
	for range 3 {
		if err := os.RemoveAll(filepath.Join(db+"-wake", a.signals.file)); err != nil {
			t.Fatal(err)
		}
		a.Signal()
		b.ring(t)
	}
	stale := filepath.Join(db+"-wake", "left-over")
	old := time.Now().Add(-2 * signalStale)
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	newWorld(t, db).Watch()
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the file of a process long dead is still there (%v)", err)
	}
}

// A signal that can't be given, for want of a descriptor, say, is given later. Here a file in the folder's place is in
// the way. That is logged once, to the given logger.
func TestFailedSignalIsGivenLater(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	if err := os.WriteFile(db+"-wake", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, db)
		w.Signal()
		time.Sleep(10 * time.Minute)
		if log := w.logged(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "can't use the folder beside the database") {
			t.Errorf("logged %q; want one warning", log)
		}
		if gen := w.Generation(); gen >= firstNumbered {
			t.Errorf("generation %d shows a store that has no presence file", gen)
		}
		if err := os.Remove(db + "-wake"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := os.Stat(filepath.Join(db+"-wake", w.signals.file)); err != nil {
			t.Error(err)
		}
	})
}

// A signal that waits when the store is closed is given.
func TestLastSignalIsGiven(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newSignals(newFolder(db, slog.New(slog.DiscardHandler)), "signal")
	s.finish()
	if names := files(t, db, "signal"); len(names) != 0 {
		t.Error("a signal was given without a request")
	}
	s.request()
	s.finish()
	if names := files(t, db, "signal"); len(names) != 1 {
		t.Error("the signal that waited was not given")
	}
}

// The folder is made again after it was removed. A store that watches announces itself again, under another number,
// and receives signals again.
func TestFolderIsRemoved(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	w, other := newWorld(t, db), newWorld(t, db)
	w.Watch()
	signal := filepath.Join(db+"-wake", w.signals.file)
	signaled := func() bool { _, err := os.Lstat(signal); return err == nil }
	until(t, "no signal", signaled)
	other.Announce()
	before, number := w.Generation(), w.presence.number.Load()
	if n := len(files(t, db, presencePrefix)); n != 2 {
		t.Fatalf("%d presence files; want 2", n)
	}
	until(t, "the folder can't be removed", func() bool { return os.RemoveAll(db+"-wake") == nil }) // a signal may be just coming
	until(t, "the store that watches gives no signal", signaled)
	until(t, "it doesn't announce itself", func() bool { // a file that isn't locked yet may be taken for a dead process's
		next := w.presence.number.Load()
		return next != 0 && next != number
	})
	if next := w.NextGeneration(before); next == before+1 {
		t.Error("an extended claim stays under the number whose file is gone")
	}
	if others := other.Check(t.Context()); !others || len(other.releases()) > 0 {
		t.Errorf("other processes: %v; released %v; want one that lives", others, other.releases())
	}
	signal = filepath.Join(db+"-wake", other.signals.file)
	other.Signal()
	until(t, "the other store gives no signal", signaled)
	w.ring(t)
}

// A signal is under way while the folder is removed: the write comes after the file's removal, and looks like a signal
// that arrives. The store announces itself and receives signals again all the same.
func TestFolderIsRemovedDuringASignal(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	w, other := newWorld(t, db), newWorld(t, db)
	w.Watch()
	signal := filepath.Join(db+"-wake", w.signals.file)
	signaled := func() bool { _, err := os.Lstat(signal); return err == nil }
	until(t, "no signal", signaled)
	other.Announce() // its open file keeps the removal of the folder itself from being reported
	f, err := os.OpenFile(signal, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the folder can't be removed", func() bool { return os.RemoveAll(db+"-wake") == nil })
	if _, err := f.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the store that watches gives no signal", signaled)
	other.Signal()
	w.ring(t)
}

// The claims of a dead process are released once, by whichever store looks first. A release that fails is repeated.
func TestReleaseClaimsOfDead(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	a, b, dead := newWorld(t, db), newWorld(t, db), newWorld(t, db)
	gen := dead.Generation()
	a.Announce()
	if a.ReleaseClaimsOfDead(t.Context()); len(a.releases()) != 0 {
		t.Fatal("claims of a living store were released")
	}
	dead.die()
	a.set(func() { a.failing = errors.New("busy") })
	for i := range 2 {
		if others := a.Check(t.Context()); !others {
			t.Error("a store whose claims can't be released is forgotten")
		}
		if got := a.releases(); len(got) != 1 || gen < got[0][0] || gen > got[0][1] {
			t.Errorf("look %d released %v; want the range of %d", i, got, gen)
		}
	}
	if b.ReleaseClaimsOfDead(t.Context()); len(b.releases()) != 1 {
		t.Error("a receiver didn't release the claims that are left")
	}
	a.set(func() { a.failing = nil })
	if others := a.Check(t.Context()); others || len(a.releases()) != 0 {
		t.Errorf("after that: others %v, released %v; want none", others, a.releases())
	}
	if names := files(t, db, presencePrefix); len(names) != 1 {
		t.Errorf("presence files %q; want that of the store that lives", names)
	}
}

// Receivers look once a second at most.
func TestReceiversLookOnceASecond(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, db)
		w.ReleaseClaimsOfDead(t.Context())
		dead := newWorld(t, db)
		dead.Announce()
		dead.die()
		time.Sleep(lookEvery - 1)
		if w.ReleaseClaimsOfDead(t.Context()); len(w.releases()) != 0 {
			t.Error("it looked twice within a second")
		}
		time.Sleep(time.Nanosecond)
		if w.ReleaseClaimsOfDead(t.Context()); len(w.releases()) != 1 {
			t.Error("it didn't look after a second")
		}
	})
}

// A closed store's claims stay: its file goes before the lock does.
func TestCloseKeepsClaims(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	a, b := newWorld(t, db), newWorld(t, db)
	b.Announce()
	b.Close()
	if others := a.Check(t.Context()); others || len(a.releases()) != 0 {
		t.Errorf("others %v, released %v; want none", others, a.releases())
	}
	if names := files(t, db, ""); len(names) != 0 {
		t.Errorf("files %q are left", names)
	}
}

// The zero Peers does nothing.
func TestZeroPeers(t *testing.T) {
	t.Parallel()
	var p Peers
	p.Announce()
	p.Signal()
	p.Watch()
	p.ReleaseClaimsOfDead(t.Context())
	if !p.Check(t.Context()) {
		t.Error("it knows that there is no other process; want that there may be some")
	}
	if gen := p.Generation(); gen >= firstNumbered || p.NextGeneration(gen) >= firstNumbered {
		t.Error("its generations belong to somebody")
	}
	p.Close()
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	numbered := func(n int64) *Peers {
		p := new(Peers)
		p.presence.number.Store(n)
		return p
	}
	var ranges [][2]int64
	for _, number := range []int64{1, 2, numbers - 1} {
		p := numbered(number)
		first, last := generations(number)
		ranges = append(ranges, [2]int64{first, last})
		for range 1000 {
			gen := p.Generation()
			if gen < first || gen > last {
				t.Fatalf("generation %d is not of number %d", gen, number)
			}
			if next := p.NextGeneration(gen); next != gen+1 {
				t.Fatalf("%d is extended to %d", gen, next)
			}
		}
		for _, foreign := range []int64{AnonymousGeneration(), numbered(number%7 + 1000).Generation(), last} {
			if next := p.NextGeneration(foreign); next < first || next > last {
				t.Errorf("extending %d gives %d, not of number %d", foreign, next, number)
			}
		}
	}
	if ranges[0][1] >= ranges[1][0] || ranges[1][1] >= ranges[2][0] {
		t.Errorf("ranges %v overlap", ranges)
	}
}
