package spool

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// keeps makes a spool file with a message, which belongs to a program and the store of some channels.
func keeps(t *testing.T, path string, c *channel.Channels) {
	t.Helper()
	s, err := Open(t.Context(), path, c, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	envelopes := worldtest.Envelope("order-1", note{"a"})
	if err := s.keep(t.Context(), []channel.Envelope{envelopes}); err != nil {
		t.Fatal(err)
	}
}

// sender returns the channels of a program to a store.
func sender(t *testing.T, s *storage.Store, program string) *channel.Channels {
	t.Helper()
	c, err := channel.New(s, routes(t), program)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A store's file is never taken for a spool, nor a spool for a store. Both stay as they are.
func TestLaw10ASpoolIsNoStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, db := filepath.Join(dir, "web.spool"), filepath.Join(dir, "store.db")
	store := worldtest.OpenAt(t, db)
	c := sender(t, store, "/web")
	keeps(t, file, c)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db, link} {
		if _, err := Open(t.Context(), path, c, Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "the file is a store, and no spool; choose another path") {
			t.Errorf("%s as a spool: got %v, want that it is a store", path, err)
		}
	}
	if _, err := Look(t.Context(), db); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("look: got %v, want that it is a store", err)
	}
	if _, err := sqlite.Open(t.Context(), "sqlite:"+file); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "the file is a spool") || !strings.Contains(err.Error(), "choose another path") {
		t.Errorf("as a store: got %v, want that it is a spool", err)
	}
	if st, err := Look(t.Context(), file); err != nil || st.Waiting != 1 {
		t.Errorf("got %+v, %v; want the message", st, err)
	}
}

// Messages belong to one program and its store, over restarts. Another program, or one with another store, doesn't get
// them until somebody releases the file. An empty file changes hands.
func TestLaw10AFileBelongsToOneProgramAndStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.spool")
	one, two := worldtest.OpenStore(t, ""), worldtest.OpenStore(t, "")
	open := func(c *channel.Channels) error {
		s, err := Open(t.Context(), file, c, Config{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	for _, c := range []*channel.Channels{sender(t, two, "/shop"), sender(t, one, "/shop"), sender(t, one, "/web")} {
		if err := open(c); err != nil {
			t.Errorf("an empty file: %v", err)
		}
	}
	keeps(t, file, sender(t, one, "/web"))
	if err := open(sender(t, one, "/web")); err != nil {
		t.Errorf("the same program: %v", err)
	}
	others := map[string]*channel.Channels{"another name": sender(t, one, "/shop"), "another store": sender(t, two, "/web")}
	for name, c := range others {
		if err := open(c); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), `keeps messages of program "/web" for store "`) || !strings.Contains(err.Error(), "spool release") {
			t.Errorf("%s: got %v, want whose it is and what to do", name, err)
		}
	}
	if st, err := Look(t.Context(), file); err != nil || st.Waiting != 1 || st.Program != "/web" || st.Store != one.Props().Place || st.Store == "" {
		t.Errorf("got %+v, %v; want the message and its owner", st, err)
	}
	if err := Release(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := open(others["another store"]); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if st, err := Look(t.Context(), file); err != nil || st.Waiting != 1 || st.Store != two.Props().Place {
		t.Errorf("got %+v, %v; want the message, and the new owner", st, err)
	}
}

// Release needs a file that no program has open. It mends one that doesn't tell whose it is.
func TestRelease(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.spool")
	if err := Release(t.Context(), file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	c := sender(t, worldtest.OpenStore(t, ""), "/web")
	keeps(t, file, c)
	s, err := Open(t.Context(), file, c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Release(t.Context(), file); !errors.Is(err, ErrInUse) {
		t.Errorf("in use: got %v", err)
	}
	if _, err := s.file.local.Blobs(owners).Put(t.Context(), ownerKey, []byte("junk"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), file, c, Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "doesn't tell whose it is") {
		t.Errorf("damaged: got %v", err)
	}
	for range 2 {
		if err := Release(t.Context(), file); err != nil {
			t.Error(err)
		}
	}
	keeps(t, file, c)
	if st, err := Look(t.Context(), file); err != nil || st.Waiting != 2 {
		t.Errorf("got %+v, %v; want both messages", st, err)
	}
}

// A lock file that is removed protects again at the next Send. If another program was quicker, the spool takes nothing
// and forwards nothing: the other one does.
func TestLaw10ARemovedLockFile(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, "")
	c := sender(t, store, "/web")
	for name, quicker := range map[string]bool{"alone": false, "another program is quicker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "web.spool")
			keeps(t, file, c)
			first, err := Open(t.Context(), file, c, Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := first.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := os.Remove(file + "-lock"); err != nil {
				t.Fatal(err)
			}
			open := func() error {
				s, err := Open(t.Context(), file, c, Config{Logger: slog.New(slog.DiscardHandler)})
				if err == nil {
					t.Cleanup(func() { _ = s.Close() }) // the test is about the first one
				}
				return err
			}
			one := []channel.Envelope{worldtest.Envelope("order-2", note{"b"})}
			if quicker {
				if err := open(); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := first.keep(t.Context(), one); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "stop both") {
						t.Errorf("keep: got %v, want that another program has the file", err)
					}
				}
				if err := first.newForwarder().pass(t.Context()); !errors.Is(err, errFile) {
					t.Errorf("forward: got %v, want that another program has the file", err)
				}
				return
			}
			if err := first.keep(t.Context(), one); err != nil {
				t.Error(err)
			}
			if err := open(); !errors.Is(err, ErrInUse) {
				t.Errorf("got %v, want that it is in use", err)
			}
		})
	}
}

// A file with two names is refused by either, so nobody opens it beside its lock.
func TestLaw10AHardLink(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.spool")
	c := sender(t, worldtest.OpenStore(t, ""), "/web")
	s, err := Open(t.Context(), file, c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	link := file + "-link"
	if err := os.Link(file, link); err != nil {
		t.Skip(err)
	}
	if _, err := Open(t.Context(), link, c, Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("got %v, want that it has two names", err)
	}
}
