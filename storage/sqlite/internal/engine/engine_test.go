package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// things is the schema of the tests: texts in the order in which they came.
var things = Schema{ApplicationID: 42, Migrations: [][]string{{`CREATE TABLE things (id INTEGER PRIMARY KEY, body TEXT NOT NULL)`}}}

// A recorder is a session that notes what is called, and does what a test wants before the commit.
type recorder struct {
	calls  []string
	before func() error
}

func (r *recorder) Begin(time.Time) { r.calls = append(r.calls, "begin") }
func (r *recorder) Committed()      { r.calls = append(r.calls, "committed") }
func (r *recorder) Answered()       { r.calls = append(r.calls, "answered") }
func (r *recorder) RolledBack()     { r.calls = append(r.calls, "rolled back") }

func (r *recorder) BeforeCommit() error {
	r.calls = append(r.calls, "before commit")
	if r.before != nil {
		return r.before()
	}
	return nil
}

// openTest opens a new file until the end of the test. Its commits don't wait for the disk.
func openTest(t *testing.T) *DB { return openAt(t, filepath.Join(t.TempDir(), "test.db")) }

func openAt(t *testing.T, path string) *DB {
	t.Helper()
	return openWith(t, path, &recorder{}, true, slog.Default())
}

func openWith(t *testing.T, path string, s Session, normal bool, log *slog.Logger) *DB {
	t.Helper()
	db, err := Open(context.Background(), path, things)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Start(s, normal, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Stop()
		if err := db.Close(); err != nil && !errors.Is(err, db.file.disk.failure()) {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// virtual runs f in virtual time, in which a commit takes none.
func virtual(t *testing.T, f func(t *testing.T, db *DB)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) { f(t, openAt(t, path)) })
}

// insert writes a text.
func insert(db *DB, body string) error {
	return db.Write(&Op{Ctx: context.Background(), Size: len(body), Run: func() error {
		return db.c.Stmt("INSERT INTO things (body) VALUES (?1)").Text(1, body).Run()
	}})
}

// bodies returns the texts in the file.
func bodies(t *testing.T, db *DB) (all []string) {
	t.Helper()
	err := db.Read(t.Context(), func(c *Conn) error {
		all = nil
		s := c.Stmt("SELECT body FROM things ORDER BY id")
		for {
			row, err := s.Step()
			if !row {
				return err
			}
			all = append(all, s.ColText(0))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inWriter runs f in the writer's goroutine.
func inWriter(t *testing.T, db *DB, f func(w *writer) error) {
	t.Helper()
	if err := db.Write(&Op{Ctx: t.Context(), Run: func() error { return f(db.writer) }}); err != nil {
		t.Fatal(err)
	}
}

// A group is one transaction. Early ops run first in it, and its session hears of each step in order.
func TestGroupIsOneTransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s := &recorder{}
		db := openWith(t, path, s, true, slog.Default())
		note := func(what string) func() error {
			return func() error { s.calls = append(s.calls, what); return nil }
		}
		errs := make(chan error, 3)
		release := make(chan struct{})
		go func() {
			errs <- db.Write(&Op{Ctx: t.Context(), Run: func() error { <-release; s.calls = nil; return nil }})
		}()
		synctest.Wait()
		go func() { errs <- db.Write(&Op{Ctx: t.Context(), Run: note("op")}) }()
		synctest.Wait()
		go func() { errs <- db.Write(&Op{Ctx: t.Context(), Early: true, Run: note("early op")}) }()
		synctest.Wait()
		close(release)
		if err := errors.Join(<-errs, <-errs, <-errs); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		got := s.calls[slices.Index(s.calls, "begin"):]
		if want := []string{"begin", "early op", "op", "before commit", "committed", "answered"}; !slices.Equal(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
	})
}

// A group that SQLite refuses is undone. Then each of its ops gets a transaction of its own. An op that fails by
// itself undoes nothing.
func TestGroupThatFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s := &recorder{}
		db := openWith(t, path, s, true, slog.Default())
		full, own := &Error{Code: sqlite3.SQLITE_FULL, Message: "made up"}, errors.New("a condition")
		release := make(chan struct{})
		held := make(chan error, 1)
		go func() {
			held <- db.Write(&Op{Ctx: t.Context(), Run: func() error { <-release; s.calls = nil; return nil }})
		}()
		synctest.Wait()
		var wrote, failed, refused error
		go func() { wrote = insert(db, "a") }()
		synctest.Wait()
		go func() { refused = db.Write(&Op{Ctx: t.Context(), Run: func() error { return own }}) }()
		synctest.Wait()
		go func() { failed = db.Write(&Op{Ctx: t.Context(), Run: func() error { return full }}) }()
		synctest.Wait()
		close(release)
		synctest.Wait()
		if err := <-held; err != nil || wrote != nil {
			t.Errorf("got %v and %v; want none", err, wrote)
		}
		if !errors.Is(failed, full) || !errors.Is(failed, driver.ErrUnavailable) || !strings.Contains(failed.Error(), "disk is full") {
			t.Errorf("got error %v; want SQLite's with its kind and a hint", failed)
		}
		if refused != own {
			t.Errorf("got error %v; want the op's own, unchanged", refused)
		}
		if got := bodies(t, db); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the file has %q; want what could be written, once", got)
		}
		got := s.calls[slices.Index(s.calls, "begin"):]
		want := []string{"begin", "rolled back",
			"begin", "before commit", "committed", "answered",
			"begin", "before commit", "committed", "answered",
			"begin", "rolled back"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
	})
}

// A session that can't write what it has left undoes the transaction.
func TestSessionFails(t *testing.T) {
	t.Parallel()
	full := &Error{Code: sqlite3.SQLITE_FULL}
	s := &recorder{before: func() error { return full }}
	db := openWith(t, filepath.Join(t.TempDir(), "test.db"), s, true, slog.Default())
	if err := insert(db, "a"); !errors.Is(err, full) {
		t.Errorf("got %v; want the session's error", err)
	}
	if got := bodies(t, db); len(got) != 0 {
		t.Errorf("the file has %q; want nothing", got)
	}
}

// A commit waits for the disk unless all its ops are relaxed or late. Late ops have a sync of their own then.
func TestWhatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	const relaxed, full = "1", "2"
	for _, c := range []struct {
		normal bool
		group  []*Op
		want   string
		syncs  int // beside the writer
	}{
		{false, []*Op{{}}, full, 0},
		{false, []*Op{{Relaxed: true}}, relaxed, 0},
		{false, []*Op{{Late: true}}, relaxed, 1},
		{false, []*Op{{Late: true}, {Relaxed: true}, {Late: true}}, relaxed, 1},
		{false, []*Op{{Relaxed: true}, {}}, full, 0},
		{false, []*Op{{Late: true}, {}}, full, 0},
		{true, []*Op{{}}, relaxed, 0},
		{true, []*Op{{Late: true}, {}}, relaxed, 0},
	} {
		t.Run(fmt.Sprint(c.normal, len(c.group), c.want, c.syncs), func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), things)
			if err != nil {
				t.Fatal(err)
			}
			w, err := newWriter(db.file, db.c, db.ops, &recorder{}, c.normal, slog.Default())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				w.syncer.finish()
				if err := errors.Join(w.close(), db.Close()); err != nil {
					t.Error(err)
				}
			}()
			syncs := 0
			w.syncer.sync = func() error { syncs++; return nil }
			for _, o := range c.group {
				o.Ctx, o.done = t.Context(), make(chan error, 1)
				o.Run = func() error {
					mode, err := w.c.One("PRAGMA synchronous")
					if mode != c.want {
						t.Errorf("synchronous is %s; want %s", mode, c.want)
					}
					return err
				}
			}
			w.do(c.group)
			for _, o := range c.group {
				if err := <-o.done; err != nil {
					t.Error(err)
				}
			}
			if syncs != c.syncs {
				t.Errorf("%d syncs beside the writer; want %d", syncs, c.syncs)
			}
		})
	}
}

// A caller that leaves while its op waits doesn't get it run.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, db *DB) {
		release := make(chan struct{})
		go db.Write(&Op{Ctx: t.Context(), Run: func() error { <-release; return nil }})
		synctest.Wait()
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var left error
		go func() {
			left = db.Write(&Op{Ctx: ctx, Run: func() error { t.Error("it ran"); return nil }})
		}()
		synctest.Wait()
		cancel(enough)
		synctest.Wait() // it must not wait for the writer, which is held
		if left != enough {
			t.Errorf("got %v; want the caller's cause", left)
		}
		close(release)
		synctest.Wait()
	})
}

// A caller that leaves while its op runs doesn't get its memory back before the op has ended.
func TestCallerLeavesMeanwhile(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	var ended atomic.Bool
	db.Write(&Op{Ctx: ctx, Run: func() error {
		cancel()
		for range 1000 {
			runtime.Gosched()
		}
		ended.Store(true)
		return nil
	}})
	if !ended.Load() {
		t.Error("the caller may use its memory while the op runs")
	}
}

// A caller that is held can't leave.
func TestHoldCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := &Op{Ctx: ctx}
	if !o.HoldCaller() {
		t.Fatal("the caller has left")
	}
	left := make(chan struct{})
	go func() { o.leave(); close(left) }()
	select {
	case <-left:
		t.Error("the caller left while it was held")
	default:
	}
	o.ReleaseCaller()
	<-left
	if o.HoldCaller() {
		t.Error("a caller that has left was held")
	}
	cancel()
	if o := (&Op{Ctx: ctx}); o.HoldCaller() {
		t.Error("a caller was held that is about to leave")
	}
}

// Stop lets the writer finish what it has taken, and nothing comes after it.
func TestStopFinishesWhatItTook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), path, things)
		if err == nil {
			err = db.Start(&recorder{}, true, slog.Default())
		}
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		go db.Write(&Op{Ctx: t.Context(), Run: func() error { <-release; return nil }})
		synctest.Wait()
		errs := make(chan error, 20)
		for range cap(errs) {
			go func() { errs <- insert(db, "a") }()
		}
		synctest.Wait()
		go db.Stop()
		synctest.Wait()
		if err := insert(db, "late"); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("an op while it stops: got %v; want unavailable", err)
		}
		close(release)
		synctest.Wait()
		done := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				done++
			} else if !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("got %v; want none or unavailable", err)
			}
		}
		if err := db.Read(t.Context(), func(*Conn) error { return nil }); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a read after Stop: got %v; want unavailable", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if got := bodies(t, openAt(t, path)); len(got) != done {
			t.Errorf("the file has %d; want the %d that were acknowledged", len(got), done)
		}
	})
}

// A migration that can't do its work leaves the file as it was.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	c, err := Connect(filepath.Join(t.TempDir(), "test.db"), ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("CREATE TABLE things (id)", "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := things.upgrade(c, 0); err == nil {
		t.Fatal("the table was made twice")
	}
	if c.InTransaction() {
		t.Error("the transaction is still open")
	}
	if n, err := c.OneInt("SELECT count(*) FROM sqlite_schema"); n != 1 || err != nil {
		t.Errorf("%d tables and indexes, %v; want the one from before", n, err)
	}
}

// A disk that fails to sync may have lost its data, whatever it reports later. So nothing more is acknowledged, and
// the log stays as it is.
func TestDiskFailsToSync(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := Open(t.Context(), path, things)
	if err == nil {
		err = db.Start(&recorder{}, false, slog.Default())
	}
	if err == nil {
		err = insert(db, "a")
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := &Error{Code: sqlite3.SQLITE_IOERR_FSYNC, Message: "made up"}
	db.file.disk.saw(failed)
	before, err := os.ReadFile(path + "-wal")
	if err != nil || len(before) == 0 {
		t.Fatalf("the log has %d bytes, %v", len(before), err)
	}
	for _, err := range []error{insert(db, "never"), db.Read(t.Context(), func(*Conn) error { return nil })} {
		if !errors.Is(err, failed) || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "did not keep") || !strings.Contains(err.Error(), "start this program again") {
			t.Errorf("got %v; want the disk's error, and what to do", err)
		}
	}
	db.Stop()
	if err := db.Close(); !errors.Is(err, failed) {
		t.Errorf("close: got %v; want the disk's error, so that the program doesn't end as if all were well", err)
	}
	if after, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the log was changed (%v)", err)
	}
	if got := bodies(t, openAt(t, path)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the file has %q; want what was acknowledged", got)
	}
}

// Syncs that fail and damage count, and no other failures.
func TestWhatADiskRemembers(t *testing.T) {
	t.Parallel()
	for code, fatal := range map[int]bool{
		sqlite3.SQLITE_IOERR_FSYNC: true, sqlite3.SQLITE_IOERR_DIR_FSYNC: true,
		sqlite3.SQLITE_CORRUPT: true, sqlite3.SQLITE_CORRUPT_INDEX: true, sqlite3.SQLITE_NOTADB: true, sqlite3.SQLITE_IOERR_SHORT_READ: true,
		sqlite3.SQLITE_IOERR_READ: false, sqlite3.SQLITE_CANTOPEN: false, sqlite3.SQLITE_IOERR_WRITE: false, sqlite3.SQLITE_FULL: false, sqlite3.SQLITE_BUSY: false,
	} {
		var d disk
		went := fmt.Errorf("commit: %w", &Error{Code: code})
		if err := d.saw(went); !errors.Is(err, went) {
			t.Errorf("code %d: got %v", code, err)
		}
		if got := d.failure(); (got != nil) != fatal {
			t.Errorf("code %d: then got %v; want an error: %v", code, got, fatal)
		}
	}
}

// A path that leads elsewhere is lost for good, even when it leads back. A look is good for a while.
func TestWatchedPaths(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var w watchedPaths
	w.watch(path, info)
	if err := w.check(0); err != nil {
		t.Errorf("got %v; want none", err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := w.check(time.Hour); err != nil {
		t.Errorf("soon after a look: got %v; want none", err)
	}
	if err := w.check(0); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v; want that it is lost", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if err := w.check(0); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("after it came back: got %v; want that it is lost", err)
	}
}
