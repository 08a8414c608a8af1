package engine

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/storage/driver"
)

// syncing opens a file whose syncer calls before ahead of each sync, and has nothing to sync but late ops.
func syncing(t *testing.T, path string, before func() error) *DB {
	t.Helper()
	db := openWith(t, path, &recorder{}, false, slog.Default())
	inWriter(t, db, func(w *writer) error {
		w.logEnd.ended = true
		w.syncer.sync = func() error { return errors.Join(before(), w.syncer.log.Sync()) }
		return nil
	})
	return db
}

// late deletes all texts that there are, in the background.
func late(db *DB) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- db.Write(&Op{Ctx: context.Background(), Late: true, Run: func() error { return db.c.Exec("DELETE FROM things") }})
	}()
	return done
}

// Late ops are answered by a sync that began after their commit. Other ops go on meanwhile.
func TestLateOpsAreSyncedBeside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		began, result := make(chan struct{}), make(chan error)
		db := syncing(t, path, func() error { began <- struct{}{}; return <-result })
		if err := insert(db, "a"); err != nil {
			t.Fatal(err)
		}
		first := late(db)
		<-began
		if got := bodies(t, db); len(got) != 0 {
			t.Errorf("the file has %q; want nothing: the first is committed", got)
		}
		second, third := late(db), late(db)
		synctest.Wait()
		if err := insert(db, "b"); err != nil { // it doesn't wait for the syncer
			t.Error(err)
		}
		wantDue := func(what string, done <-chan error) {
			t.Helper()
			select {
			case err := <-done:
				t.Errorf("%s was answered before the sync: %v", what, err)
			default:
			}
		}
		wantDue("the first", first)
		result <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
		<-began // one for both
		wantDue("the second", second)
		wantDue("the third", third)
		result <- nil
		if err := errors.Join(<-second, <-third); err != nil {
			t.Error(err)
		}
	})
}

// A disk that fails to sync beside the writer has failed for all calls.
func TestSyncBesideFails(t *testing.T) {
	t.Parallel()
	db := syncing(t, filepath.Join(t.TempDir(), "test.db"), func() error { return syscall.EIO })
	for _, err := range []error{<-late(db), insert(db, "never"), <-late(db)} {
		if !errors.Is(err, syscall.EIO) || !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("got %v; want the disk's error, as unavailable", err)
		}
	}
}

// After a power failure the disk holds what it was asked to keep. A late op that was answered is among it; one without
// an answer may not be.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var kept []string // copies of what was written when each sync began
	keep := func() error {
		dir := t.TempDir()
		// By another process: closing the file in this one would drop SQLite's locks on it.
		if out, err := exec.Command("cp", path, path+"-wal", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		kept = append(kept, filepath.Join(dir, filepath.Base(path)))
		return nil
	}
	db := syncing(t, path, keep)
	if err := insert(db, "a"); err != nil {
		t.Fatal(err)
	}
	keep()
	if err := <-late(db); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		if got := bodies(t, openAt(t, kept[i])); len(got) != want {
			t.Errorf("after sync %d there is %q; want %d texts", i, got, want)
		}
	}
}
