package sqlite

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// lookEvery is how long the engine relies on a look at the file.
const lookEvery = time.Second

// everyCall runs each call of a store, and returns the errors by the call's name.
func everyCall(t *testing.T, s *store, receipt storage.Receipt) map[string]error {
	ctx := t.Context()
	q, b, rows := s.Queue("queue"), s.Blobs("docs"), s.Table("rows")
	errs := map[string]error{}
	errs["send"] = q.Send(ctx, text("late"))
	_, errs["receive"] = q.Receive(ctx, 1, time.Minute)
	_, errs["extend"] = q.Extend(ctx, receipt, time.Minute)
	errs["rewrite"] = q.Rewrite(ctx, receipt, []byte("late"), 0)
	errs["delete"] = q.Delete(ctx, []storage.Receipt{receipt})
	_, errs["stats"] = q.Stats(ctx)
	_, errs["get blob"] = b.Get(ctx, "key", "")
	_, errs["put blob"] = b.Put(ctx, "key", []byte("late"), storage.Condition{})
	errs["delete blob"] = b.Delete(ctx, "key", storage.Condition{})
	for _, err := range b.List(ctx, "", "") {
		errs["list blobs"] = err
	}
	_, errs["get row"] = rows.Get(ctx, "p", "k")
	_, errs["put row"] = rows.Put(ctx, "p", "k", []byte("late"), storage.Condition{})
	errs["put rows"] = rows.PutBatch(ctx, "p", []storage.RowPut{{Key: "k"}})
	errs["delete row"] = rows.Delete(ctx, "p", "k", storage.Condition{})
	for _, err := range rows.Query(ctx, "p", storage.RowRange{}) {
		errs["query rows"] = err
	}
	_, errs["commit"] = s.Commit(ctx, storage.Work{Send: []storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("late")}}}})
	return errs
}

// writeEach writes something for every call to find.
func writeEach(t *testing.T, s *store, body string) {
	t.Helper()
	send(t, s, "queue", body)
	_, err := s.Blobs("docs").Put(t.Context(), "key", []byte(body), storage.Condition{})
	if err == nil {
		_, err = s.Table("rows").Put(t.Context(), "p", "k", []byte(body), storage.Condition{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileIsLost takes the file away under an open store. The store finds that before it writes or, when it has just
// looked, before it answers. It acknowledges nothing that isn't in the file of that name. A file that took its place
// stays as it is. So does the lost one, because its log may be the other's by then.
func TestFileIsLost(t *testing.T) {
	t.Parallel()
	moves := map[string]func(path, backup string) error{
		"removed":           func(path, _ string) error { return os.Remove(path) },
		"moved away":        func(path, _ string) error { return os.Rename(path, path+".old") },
		"log removed":       func(path, _ string) error { return os.Remove(path + "-wal") },
		"log index removed": func(path, _ string) error { return os.Remove(path + "-shm") },
		"log replaced":      func(path, backup string) error { return os.Rename(backup, path+"-wal") },
		"folder is gone":    func(path, _ string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
		"replaced":          func(path, backup string) error { return os.Rename(backup, path) },
		"a link to another": func(path, backup string) error {
			return errors.Join(os.Remove(path), os.Symlink(backup, path))
		},
	}
	for name, move := range moves {
		for when, later := range map[string]time.Duration{"": 0, ", long ago": lookEvery} {
			t.Run(name+when, func(t *testing.T) {
				t.Parallel()
				testFileIsLost(t, name, move, later)
			})
		}
	}
}

func testFileIsLost(t *testing.T, name string, move func(path, backup string) error, later time.Duration) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "sub", "test.db"), filepath.Join(dir, "backup.db")
	b := openAt(t, backup, "?wake=off")
	writeEach(t, b, "backup")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, path, "?wake=off")
		writeEach(t, s, "old")
		receipt := receive(t, s, "queue", 1)[0].Receipt
		time.Sleep(lookEvery)
		writeEach(t, s, "old") // the store has looked, and found the file
		synctest.Wait()        // until the log of the first is copied
		lost, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer lost.Close()
		before, err := io.ReadAll(lost)
		if err == nil {
			err = move(path, backup)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(later)
		for range 2 {
			for call, err := range everyCall(t, s, receipt) {
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "replaced or removed") || !strings.Contains(err.Error(), "start again") {
					t.Errorf("%s: got error %v; want unavailable, why, and what to do", call, err)
				}
			}
			time.Sleep(time.Hour) // so that the writer does its work for idle times
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if after, err := io.ReadAll(io.NewSectionReader(lost, 0, 1<<30)); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the lost file was changed (%v)", err)
		}
	})
	now, err := os.ReadFile(path)
	switch {
	case strings.HasPrefix(name, "log"): // nothing took the file's place
	case errors.Is(err, os.ErrNotExist):
		if strings.HasPrefix(name, "replaced") || strings.HasPrefix(name, "a link") {
			t.Error("the file that took the place is gone")
		}
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(now, content):
		t.Error("the file that took the place was changed")
	}
}

// TestFileIsLostMeanwhile has the file replaced while an op runs. It is not acknowledged.
func TestFileIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	send(t, s, "queue", "body")
	err := s.write(&engine.Op{Ctx: t.Context()}, func(*tx) error {
		copied := filepath.Join(t.TempDir(), "copy.db")
		return errors.Join(os.WriteFile(copied, nil, 0o600), os.Rename(copied, s.path))
	})
	wantError(t, err, storage.ErrUnavailable, "replaced or removed")
}

// TestFileIsReplacedBehindReaders checks that no connection that is opened later reads the other file, even before
// the store has looked.
func TestFileIsReplacedBehindReaders(t *testing.T) {
	t.Parallel()
	s, b := openTest(t, "?wake=off"), openTest(t, "?wake=off")
	writeEach(t, s, "old")
	writeEach(t, b, "backup")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path, s.path); err != nil {
		t.Fatal(err)
	}
	_, err := s.Blobs("docs").Get(t.Context(), "key", "")
	wantError(t, err, storage.ErrUnavailable, "replaced or removed")
	wantError(t, s.Queue("queue").Send(t.Context(), text("late")), storage.ErrUnavailable, "replaced or removed")
}

// TestLogWithoutItsFile checks that the next start doesn't delete the log of a lost file, as SQLite would.
func TestLogWithoutItsFile(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(string) error{"removed": os.Remove, "empty": func(path string) error { return os.Truncate(path, 0) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file.db")
			log := []byte("of a lost file")
			if err := errors.Join(os.WriteFile(path, nil, 0o600), lose(path), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), path)
			wantError(t, err, storage.ErrUnavailable, "-wal")
			if got, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(got, log) {
				t.Errorf("the log is now %q (%v)", got, err)
			}
		})
	}
}

// TestRestoreAfterLoss does what the error says: stop, remove the old log, start again.
func TestRestoreAfterLoss(t *testing.T) {
	t.Parallel()
	s, b := openTest(t, "?wake=off"), openTest(t, "?wake=off")
	send(t, s, "queue", "old")
	send(t, b, "queue", "backup")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path, s.path); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, end := range []string{"-wal", "-shm"} {
		if err := os.Remove(s.path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	again := openAt(t, s.path, "?wake=off")
	if got := all(t, again, "queue"); !slices.Equal(got, []string{"backup"}) {
		t.Errorf("after the restore: %q; want the backup's message", got)
	}
}

// TestProcessesMeetBehindALink checks that stores ring each other though they know the file by different names.
func TestProcessesMeetBehindALink(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file.db")
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	a := openAt(t, file, "")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, link, "")
	ring, stop := wake(b, "queue")
	defer stop()
	<-ring // the one at the beginning
	send(t, a, "queue", "body")
	for n := 0; n == 0; n = len(receive(t, b, "queue", 1)) {
		select {
		case <-ring:
		case <-time.After(time.Minute):
			t.Fatal("nobody rings")
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v beside the link; want the link alone", list, err)
	}
}

// TestSameFileByAnotherWay checks that nothing but the file itself counts.
func TestSameFileByAnotherWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file.db"), filepath.Join(dir, "link.db")
	openAt(t, file, "?wake=off")
	if err := os.Symlink("file.db", link); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, link, "?wake=off")
		send(t, s, "queue", "body")
		if err := errors.Join(os.Remove(link), os.Symlink(file, link), os.Chtimes(file, time.Time{}, time.Unix(0, 0))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		send(t, s, "queue", "body")
	})
}
