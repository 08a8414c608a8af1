package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A message whose kind has no route any more stays in the file, and the others go. A start with a route sends it.
func TestLaw6ARefusedMessageHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		c := w.spool.Channels()
		for n := range 3 {
			if err := c.Send(t.Context(), note{"a"}); err != nil {
				t.Fatal(err)
			}
			w.keep(n, n+1)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.mood.Store(up)
		only, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts))
		if err != nil {
			t.Fatal(err)
		}
		w.channels = channelsOver(t, w.seen, only)
		w.start(Config{}, nil)
		settle()
		st := w.spool.State()
		if st.Waiting != 0 || st.Refused != 3 || st.Bytes == 0 || !strings.Contains(st.Reason, "no route") {
			t.Errorf("got %+v, want 3 refused messages for want of a route", st)
		}
		worldtest.Want(t, "commands", len(w.arrived(worldtest.Accounts)), 3)
		worldtest.Want(t, "lines", w.log.Count("ERROR messages of the spool can't be sent", "no route"), 3)
		if spooled, err := w.send(t.Context(), 9); spooled || err != nil {
			t.Errorf("spooled %v, error %v; want the command in the store", spooled, err)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.channels = channelsOver(t, w.seen, routes(t))
		w.start(Config{}, nil)
		settle()
		worldtest.Want(t, "notes", len(w.arrived(notes)), 3)
		worldtest.Want(t, "bytes left", w.spool.State().Bytes, 0)
	})
}

// A message that the store never takes, with an error as if it were away, is set aside once others show it.
func TestLaw6AMessageThatOnlySeemsToBeAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		tooMuch := 0
		seen := storagetest.Intercept(storage.New(steps{w.store.Driver()}), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if w.mood.Load() == away {
				return op.Fail(storage.ErrUnavailable)
			}
			if op.Name == "put blob" { // only one message is so large that its body is a blob
				tooMuch++
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		w.channels = channelsOver(t, seen, routes(t))
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 3)
		if err := w.adds.Send(t.Context(), worldtest.Add{Key: "large", To: "a", Note: strings.Repeat("x", 100<<10)}); err != nil {
			t.Fatal(err)
		}
		w.keep(3, 6)
		w.mood.Store(up)
		for n := 6; n < 60; n++ {
			if _, err := w.send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		settle()
		st := w.spool.State()
		if st.Waiting != 0 || st.Refused != 1 {
			t.Errorf("got %+v, want the large one set aside; log:\n%s", st, w.log)
		}
		got := w.arrived(worldtest.Accounts)
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 60 || tooMuch == 0 {
			t.Errorf("got %d commands, want 60", len(got))
		}
	})
}

// The program may die in any call of the file or of the store: what was accepted arrives after the next start.
func TestLaw7ACrashInAnyCall(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"file", "store"} {
		for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
			t.Run(fmt.Sprint(place, " ", moment), func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					crashed := false
					synctest.Test(t, func(t *testing.T) { crashed = crashAt(t, newWorld(t), place, n, moment) })
					if t.Failed() {
						t.Fatalf("in call %d", n)
					}
					if !crashed {
						if n < 4 {
							t.Fatalf("only %d calls", n)
						}
						return
					}
				}
			})
		}
	}
}

// crashAt runs a program that dies in its nth call, and another one after it. It reports whether the call came.
func crashAt(t *testing.T, w *world, place string, n int64, moment storagetest.Moment) bool {
	var fuse *storagetest.Fuse
	crash := func(s *storage.Store) *storage.Store {
		s, fuse = storagetest.Crash(s, n, moment)
		return s
	}
	over := func(s *storage.Store) *storage.Store { return s }
	whole := w.channels
	if place == "file" {
		over = crash
	} else {
		w.channels = channelsOver(t, crash(w.seen), routes(t))
	}
	var accepted []string
	local := w.openLocal()
	if s, err := w.open(over(local), Config{MaxBytes: defaultBytes, MaxAge: time.Hour, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		w.use(s, local.Close)
		w.mood.Store(away)
		for i := range 5 {
			if i == 3 {
				w.mood.Store(up)
				time.Sleep(2 * time.Second)
			}
			if _, err := w.send(t.Context(), i); err == nil {
				accepted = append(accepted, key(i))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	} else if err := local.Close(); err != nil {
		t.Error(err)
	}
	w.mood.Store(up)
	w.channels = whole
	w.start(Config{}, nil)
	settle()
	got := w.arrived(worldtest.Accounts)
	for _, id := range accepted {
		if !slices.Contains(got, id) {
			t.Errorf("%s was accepted, and is lost; there are %q", id, got)
		}
	}
	return fuse.Fired()
}

// Open refuses what it can't use, with an error that says what is wrong.
func TestLaw7OpenRefuses(t *testing.T) {
	t.Parallel()
	c := channelsOver(t, worldtest.OpenStore(t, worldtest.Virtual), routes(t))
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	other, err := Open(t.Context(), newer, c, Config{})
	if err == nil {
		_, err = other.file.blobs.Put(t.Context(), "something else", nil, storage.Condition{})
	}
	if err == nil {
		err = other.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		path string
		c    *channel.Channels
		cfg  Config
		kind error
		text string
	}{
		"no path":     {"", c, Config{}, storage.ErrInvalid, "want that of a file"},
		"line break":  {filepath.Join(dir, "x\n"), c, Config{}, storage.ErrInvalid, "line break"},
		"no shell":    {"~/x", c, Config{}, storage.ErrInvalid, "only a shell replaces"},
		"parameters":  {filepath.Join(dir, "x?sync=normal"), c, Config{}, storage.ErrInvalid, "without a question mark"},
		"a folder":    {dir, c, Config{}, storage.ErrInvalid, "it is a folder"},
		"no database": {junk, c, Config{}, storage.ErrInvalid, "not an SQLite database"},
		"newer":       {newer, c, Config{}, storage.ErrInvalid, "is not a spool"},
		"no channels": {filepath.Join(dir, "x"), nil, Config{}, storage.ErrInvalid, "there are no channels"},
		"a bad bound": {filepath.Join(dir, "x"), c, Config{MaxBytes: -1, MaxAge: 8 * 24 * time.Hour}, storage.ErrInvalid, "want at most 168h0m0s"},
	} {
		if _, err := Open(t.Context(), x.path, x.c, x.cfg); !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.text) || !strings.HasPrefix(err.Error(), "spool: ") {
			t.Errorf("%s: got %v, want %q", name, err, x.text)
		}
	}
}

// Nothing is made beside a file that is no spool, whatever link leads to it.
func TestLaw7NothingIsLeftBesideAForeignFile(t *testing.T) {
	t.Parallel()
	c := channelsOver(t, worldtest.OpenStore(t, worldtest.Virtual), routes(t))
	junk, db := filepath.Join(t.TempDir(), "notes.txt"), filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := worldtest.OpenAt(t, db).Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{junk, db} {
		link := filepath.Join(t.TempDir(), "web.spool")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{link, target} {
			if _, err := Open(t.Context(), path, c, Config{}); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: got %v, want that it is refused", path, err)
			}
			for _, at := range []string{link, target} {
				if left, err := filepath.Glob(filepath.Join(filepath.Dir(at), "*")); err != nil || len(left) != 1 || left[0] != at {
					t.Errorf("%s: there are now %q (%v), want the file alone", path, left, err)
				}
			}
		}
	}
}

// Two programs never share a spool. The file is free when the first one closes it.
func TestLaw7OneProgram(t *testing.T) {
	t.Parallel()
	c := channelsOver(t, worldtest.OpenStore(t, worldtest.Virtual), routes(t))
	path := filepath.Join(t.TempDir(), "new", "web.spool")
	first, err := Open(t.Context(), path, c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, c, Config{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want that it is in use, and by whom", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	for _, target := range []string{path, filepath.Dir(path)} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		other := link
		if target != path {
			other = filepath.Join(link, filepath.Base(path))
		}
		if _, err := Open(t.Context(), other, c, Config{}); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: got %v, want that it is in use", other, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	second, err := Open(t.Context(), path, c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// A file that goes away while the program runs is an error of Send while the store is away, and no harm otherwise.
func TestLaw7TheFileGoesAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 1)
		for _, name := range []string{w.path, w.path + "-wal", w.path + "-shm"} {
			if err := os.Rename(name, name+"-moved"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if spooled, err := w.send(t.Context(), 1); spooled || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "replaced or removed") {
			t.Errorf("spooled %v, error %v; want that the file is gone", spooled, err)
		}
		if w.spool.Takes() == nil {
			t.Error("the spool says that it takes messages")
		}
		w.mood.Store(up)
		settle()
		if spooled, err := w.send(t.Context(), 2); spooled || err != nil {
			t.Errorf("spooled %v, error %v; want the command in the store", spooled, err)
		}
		_ = w.stop()
		for _, name := range []string{w.path, w.path + "-wal", w.path + "-shm"} {
			if err := os.Rename(name+"-moved", name); err != nil {
				t.Fatal(err)
			}
		}
		w.start(Config{}, nil)
		settle()
		if got := w.arrived(worldtest.Accounts); !slices.Contains(got, key(0)) || !slices.Contains(got, key(2)) {
			t.Errorf("got %q, want %s and %s", got, key(0), key(2))
		}
	})
}

// An entry that the disk has damaged is kept and shown, and the others go.
func TestLaw7ADamagedEntry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 5)
		other := w.openLocal()
		var names []string
		for b := range other.Blobs(container).List(t.Context(), "") {
			names = append(names, b.Key)
		}
		blob, err := other.Blobs(container).Get(t.Context(), names[2], "")
		if err != nil {
			t.Fatal(err)
		}
		blob.Body[len(blob.Body)/2] ^= 1
		if _, err := other.Blobs(container).Put(t.Context(), names[2], blob.Body, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		w.mood.Store(up)
		settle()
		if st := w.spool.State(); st.Waiting != 0 || st.Refused != 1 || st.Reason != errDamaged.Error() {
			t.Errorf("got %+v, want one damaged message", st)
		}
		worldtest.Want(t, "commands", len(w.arrived(worldtest.Accounts)), 4)
	})
}

// A message leaves the file after the store has acknowledged it, and not before.
func TestLaw7OutOfTheFileAfterTheAcknowledgement(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 2)
		w.mood.Store(silent) // the forwarder is in a send
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := 0
		for range w.openedBlobs(t) {
			n++
		}
		worldtest.Want(t, "entries in the file", n, 2)
	})
}

// A stop sends what the store takes, and leaves the rest for the next start.
func TestLaw8TheStop(t *testing.T) {
	for name, c := range map[string]struct {
		mood int32
		most time.Duration
		left int
	}{
		"the store is back": {up, 0, 0},
		"the store is away": {away, time.Minute, 300},
		"the store is slow": {silent, 5 * time.Second, 300},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start(Config{}, nil)
				w.mood.Store(away)
				w.keep(0, 300)
				time.Sleep(time.Minute)
				w.mood.Store(c.mood)
				began := time.Now()
				if err := w.stop(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > c.most {
					t.Errorf("took %v, want at most %v", took, c.most)
				}
				worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), 300-c.left)
				worldtest.Want(t, "lines about the rest", w.log.Count("INFO the spool stops", fmt.Sprint("messages=", c.left)), 1)
				w.mood.Store(up)
				w.start(Config{}, nil)
				settle()
				worldtest.Want(t, "arrived after the next start", len(w.arrived(worldtest.Accounts)), c.left)
			})
		})
	}
}

// Law 1: a Send waits for the file as long as for the store, and longer for a large message, within bounds, also where
// another tool has locked the file. The spool takes messages once the file answers.
func TestLaw1AFileThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var hangs atomic.Bool
		w.start(Config{}, func(local *storage.Store) *storage.Store {
			return storagetest.Intercept(local, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if hangs.Load() && op.Name == "put blob" {
					<-ctx.Done()
					return op.Fail(context.Cause(ctx))
				}
				return do()
			})
		})
		w.mood.Store(away)
		hangs.Store(true)
		began := time.Now()
		if spooled, err := w.send(t.Context(), 1); spooled || !isAway(err) {
			t.Errorf("spooled %v, error %v; want that the spool takes nothing", spooled, err)
		}
		worldtest.Want(t, "time of a Send", time.Since(began), 2*time.Second)
		hangs.Store(false)
		settle()
		w.keep(2, 3)
		w.mood.Store(up)
		settle()
		worldtest.Want(t, "commands", len(w.arrived(worldtest.Accounts)), 1)
	})
	for size, want := range map[int]time.Duration{16 << 20: 4 * time.Second, 1 << 30: 10 * time.Second} {
		worldtest.Want(t, fmt.Sprintf("time for %d bytes", size), writeTime(size), want)
	}
}
