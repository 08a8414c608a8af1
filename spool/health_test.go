package spool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A Send whose message went to a file without its name is no success, however soon after the removal it comes.
func TestLaw7AMessageInARemovedFileIsNotDurable(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed":     os.Remove,
		"log removed": func(path string) error { return os.Remove(path + "-wal") },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		},
		"folder moved": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+"-moved") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.path = filepath.Join(filepath.Dir(w.path), "data", "web.spool")
				w.start(Config{}, nil)
				w.mood.Store(away)
				w.keep(0, 1)
				if err := lose(w.path); err != nil {
					t.Fatal(err)
				}
				for n := range 3 {
					if spooled, err := w.send(t.Context(), 1+n); spooled || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "replaced or removed") {
						t.Errorf("spooled %v, error %v; want that the file is gone", spooled, err)
					}
				}
				if why := w.spool.Takes(); why == nil || strings.Contains(why.Error(), w.path) {
					t.Errorf("takes: got %v, want why not, without a path", why)
				}
				if w.spool.State().Failed == nil {
					t.Error("the state doesn't tell")
				}
				worldtest.Want(t, "log lines", w.log.Count("ERROR the spool takes nothing", "messages=1"), 1)
			})
		})
	}
}

// A file that is removed while nobody sends shows in the log, for /readyz and in the store, until a start with another
// one.
func TestLaw7ARemovedFileShowsWithoutASend(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		if _, err := w.send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(w.path + end); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(lookEvery + time.Second)
		synctest.Wait()
		if why := w.spool.Takes(); why == nil || !strings.Contains(why.Error(), "put it back and start this program again") {
			t.Errorf("takes: got %v, want why not, and what to do", why)
		}
		worldtest.Want(t, "log lines", w.log.Count("ERROR the spool takes nothing: its file was removed", "put the file back with the -wal"), 1)
		if all := w.reports(); len(all) != 1 || !strings.Contains(all[0].Fault, "its file was removed") {
			t.Errorf("got reports %+v, want one of the file", all)
		}
		if spooled, err := w.send(t.Context(), 2); spooled || err != nil {
			t.Errorf("spooled %v, error %v; want the command in the store", spooled, err)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.start(Config{}, nil)
		settle()
		worldtest.Want(t, "reports after the next start", len(w.reports()), 0)
	})
}

// A spool whose disk was full takes messages again once a write succeeds, without a Send that tries.
func TestLaw7AFailureEndsWithAWrite(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var full atomic.Bool
		w.start(Config{}, func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if full.Load() && op.Name == "put blob" {
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			})
		})
		w.mood.Store(away)
		full.Store(true)
		if spooled, err := w.send(t.Context(), 1); spooled || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("spooled %v, error %v; want none", spooled, err)
		}
		for range 3 {
			time.Sleep(lookEvery)
			synctest.Wait()
			if w.spool.Takes() == nil {
				t.Error("the spool says that it takes messages, while none can be written")
			}
		}
		full.Store(false)
		time.Sleep(lookEvery)
		synctest.Wait()
		if err := w.spool.Takes(); err != nil {
			t.Errorf("takes: got %v, want that it does", err)
		}
		worldtest.Want(t, "beginnings", w.log.Count("ERROR the spool takes nothing"), 1)
		worldtest.Want(t, "ends", w.log.Count("INFO the spool takes messages again"), 1)
		w.keep(1, 2)
	})
}

// A caller that leaves says nothing about the file.
func TestLaw7ACallerThatLeavesIsNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "put blob" && op.Resource != "blob "+owners+"/"+ownerKey {
					<-ctx.Done()
					return op.Fail(context.Cause(ctx))
				}
				return do()
			})
		})
		w.mood.Store(away)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if spooled, err := w.send(ctx, 1); spooled || err == nil {
			t.Errorf("spooled %v, error %v; want the caller's", spooled, err)
		}
		if err := w.spool.Takes(); err != nil {
			t.Errorf("takes: got %v, want that it does", err)
		}
	})
}
