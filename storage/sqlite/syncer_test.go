package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage"
)

// syncing makes the syncer of a store that was just opened call before ahead of each sync. It leaves the syncer
// nothing to sync but deletions.
func syncing(t *testing.T, s *store, before func() error) {
	t.Helper()
	err := s.write(&op{ctx: t.Context(), run: func(w *writer) error {
		w.logExtended = true
		w.syncer.sync = func() error { return errors.Join(before(), w.syncer.log.Sync()) }
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// slow makes the syncer of a store that was just opened report when a sync begins, and wait for its result. After
// that the disk is synced.
func slow(t *testing.T, s *store) (began chan struct{}, result chan error) {
	t.Helper()
	began, result = make(chan struct{}), make(chan error)
	syncing(t, s, func() error { began <- struct{}{}; return <-result })
	return began, result
}

// deletion deletes a message in the background.
func deletion(s *store, d storage.Delivery) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Queue("queue").Delete(context.Background(), []storage.Receipt{d.Receipt}) }()
	return done
}

// wantDue reports an op that has an answer too soon.
func wantDue(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s was answered before the sync: %v", what, err)
	default:
	}
}

// Deletions are answered by a sync that began after their commit. Other ops go on meanwhile.
func TestDeletionsAreSyncedBeside(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	began, result := slow(t, s)
	send(t, s, "queue", "a", "b", "c", "d")
	d := receive(t, s, "queue", 3)
	first := deletion(s, d[0])
	<-began
	if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st.Ready+st.InFlight != 3 {
		t.Errorf("stats: %+v, %v; want 3: the deletion is committed", st, err)
	}
	var later []<-chan error
	for _, x := range d[1:] {
		later = append(later, deletion(s, x))
	}
	for len(s.writer.syncer.in) < len(later) { // each is a group of its own, or they are one
		if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st.Ready+st.InFlight == 1 {
			break
		}
	}
	send(t, s, "queue", "e")
	receive(t, s, "queue", 2)
	wantDue(t, "the first", first)
	result <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-began
	for _, x := range later {
		wantDue(t, "a later one", x)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	<-s.closing
	result <- nil
	if err := errors.Join(<-later[0], <-later[1], <-closed); err != nil {
		t.Error(err)
	}
}

// Deletions wait for a sync of their own when no other op of their group waits for the disk.
func TestWhatIsSyncedBeside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query string
		send  bool // in the same group
		syncs int
	}{{"", false, 1}, {"", true, 0}, {"?sync=normal", false, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			s := openTest(t, c.query)
			syncs := 0
			syncing(t, s, func() error { syncs++; return nil })
			send(t, s, "queue", "a")
			d := receive(t, s, "queue", 1)
			release := hold(t, s)
			ops := []<-chan error{enqueue(s, func() error { return s.Queue("queue").Delete(t.Context(), []storage.Receipt{d[0].Receipt}) })}
			if c.send {
				ops = append(ops, enqueue(s, func() error { return s.Queue("queue").Send(t.Context(), text("b")) }))
			}
			release()
			for _, op := range ops {
				if err := <-op; err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if syncs != c.syncs {
				t.Errorf("%d syncs beside the writer; want %d", syncs, c.syncs)
			}
		})
	}
}

// A disk that fails to sync may have lost its data, whatever it reports later. So nothing more is acknowledged.
func TestDiskFailsToSync(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	began, result := slow(t, s)
	send(t, s, "queue", "a", "b")
	d := receive(t, s, "queue", 2)
	deleted := deletion(s, d[0])
	<-began
	result <- syscall.EIO
	for _, err := range []error{
		<-deleted,
		s.Queue("queue").Send(t.Context(), text("never")),
		<-deletion(s, d[1]),
	} {
		wantError(t, err, storage.ErrUnavailable, "did not keep", "start this program again")
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("got error %v; want the disk's", err)
		}
	}
	_, received := s.Queue("queue").Receive(t.Context(), 1, time.Minute)
	_, read := s.Queue("queue").Stats(t.Context())
	for _, err := range []error{received, read} {
		wantError(t, err, storage.ErrUnavailable, "did not keep")
	}
	if !s.hasChanged() {
		t.Error("no news, though nobody can look; want them to try")
	}
	log := size(t, s.path+"-wal")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := size(t, s.path+"-wal"); got != log || log == 0 {
		t.Errorf("the log has %d bytes, then %d; want it as it was", log, got)
	}
	again := openAt(t, s.path, "?wake=off")
	send(t, again, "queue", "c")
	if err := again.Queue("queue").Delete(t.Context(), []storage.Receipt{d[1].Receipt}); err != nil {
		t.Errorf("delete what was received before: %v", err)
	}
	if got := all(t, again, "queue"); len(got) != 1 || got[0] != "c" {
		t.Errorf("queue has %q; want c", got)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A sync of SQLite's own that fails counts as much, whichever connection asked for it. Other failures don't count.
func TestWhatSQLiteFailsToSync(t *testing.T) {
	t.Parallel()
	for code, fatal := range map[int]bool{
		sqlite3.SQLITE_IOERR_FSYNC: true, sqlite3.SQLITE_IOERR_DIR_FSYNC: true,
		sqlite3.SQLITE_IOERR_WRITE: false, sqlite3.SQLITE_FULL: false, sqlite3.SQLITE_BUSY: false,
	} {
		s := openTest(t, "?wake=off")
		went := fmt.Errorf("commit: %w", &Error{Code: code})
		if err := s.place.saw(went); !errors.Is(err, went) {
			t.Errorf("code %d: got %v", code, err)
		}
		err := s.Queue("queue").Send(t.Context(), text("a"))
		if fatal {
			wantError(t, err, storage.ErrUnavailable, "did not keep")
		} else if err != nil {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

// After a power failure the disk holds what it was asked to keep. An answered deletion is among it; a deletion
// without an answer may not be.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	var kept []string // copies of what was written when each sync began
	keep := func() error {
		dir := t.TempDir()
		// By another process: closing the file in this one would drop SQLite's locks on it.
		if out, err := exec.Command("cp", s.path, s.path+"-wal", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		kept = append(kept, filepath.Join(dir, filepath.Base(s.path)))
		return nil
	}
	syncing(t, s, keep)
	send(t, s, "queue", "a")
	d := receive(t, s, "queue", 1)
	keep()
	if err := <-deletion(s, d[0]); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 0} {
		again := openAt(t, kept[i], "?wake=off")
		if st, err := again.Queue("queue").Stats(t.Context()); err != nil || st.Ready+st.InFlight != want {
			t.Errorf("after sync %d there are %+v, %v; want %d", i, st, err, want)
		}
	}
}
