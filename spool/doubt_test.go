package spool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A flaky file fails by the names of its calls of entries.
type flaky struct {
	before, after atomic.Value // string: the call that fails without its effect, and after it
	deletes       atomic.Int64
}

func (f *flaky) over(s *storage.Store) *storage.Store {
	f.before.Store("")
	f.after.Store("")
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if !strings.HasPrefix(op.Resource, "blob "+container+"/") {
			return do()
		}
		if op.Name == "delete blob" {
			f.deletes.Add(1)
		}
		if f.before.Load() == op.Name {
			return op.Fail(storage.ErrUnavailable)
		}
		err := do()
		if err == nil && f.after.Load() == op.Name {
			err = op.Fail(storage.ErrUnavailable)
		}
		return err
	})
}

// wantInFile fails the test unless the file has so many entries, and the spool counts their bytes.
func (w *world) wantInFile(entries int, bytes int64) {
	w.t.Helper()
	n := 0
	for range w.openedBlobs(w.t) {
		n++
	}
	if got := w.spool.State().Bytes; n != entries || got != bytes {
		w.t.Fatalf("%d entries in the file and %d bytes counted, want %d and %d; log:\n%s", n, got, entries, bytes, w.log)
	}
}

// Law 7: a Send that fails leaves nothing in the file, although its write had its effect.
func TestLaw7ASendThatFailsLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var f flaky
		w.start(Config{}, f.over)
		w.mood.Store(away)
		f.after.Store("put blob")
		for n := range 3 {
			if spooled, err := w.send(t.Context(), n); spooled || !errors.Is(err, storage.ErrUnavailable) {
				t.Fatalf("spooled %v, error %v; want an error", spooled, err)
			}
		}
		f.after.Store("")
		synctest.Wait()
		w.wantInFile(0, 0)
		worldtest.Want(t, "deletions", f.deletes.Load(), 3)
		w.keep(1, 2) // the client's repeat
		w.mood.Store(up)
		settle()
		if got := w.arrived(worldtest.Accounts); len(got) != 1 || got[0] != key(1) {
			t.Errorf("got %q, want the repeat alone", got)
		}
		w.wantInFile(0, 0)
	})
}

// Law 7: as long as the file doesn't answer, what a failed Send may have left there is counted, and not sent. Once it
// answers, or at the latest in Close, that is deleted.
func TestLaw7WhatAFailedSendLeftIsDeletedOnceTheFileAnswers(t *testing.T) {
	for name, closing := range map[string]bool{"while the program runs": false, "in Close": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var f flaky
				w.start(Config{}, f.over)
				w.mood.Store(away)
				f.after.Store("put blob")
				f.before.Store("delete blob")
				if spooled, err := w.send(t.Context(), 1); spooled || err == nil {
					t.Fatalf("spooled %v, error %v; want an error", spooled, err)
				}
				f.after.Store("")
				w.mood.Store(up)
				time.Sleep(time.Hour)
				synctest.Wait()
				size := w.listed()[0].Bytes
				w.wantInFile(1, size)
				w.wantWaiting(0)
				if f.deletes.Load() < 100 || f.deletes.Load() > 1000 || w.spool.Takes() == nil {
					t.Errorf("%d deletions in an hour, takes %v; want one now and then, and that the file fails", f.deletes.Load(), w.spool.Takes())
				}
				f.before.Store("")
				if closing {
					if err := w.stop(); err != nil {
						t.Fatal(err)
					}
					w.start(Config{}, nil)
				}
				settle()
				w.wantInFile(0, 0)
				if err := w.spool.Takes(); err != nil {
					t.Errorf("takes: %v, want that it does", err)
				}
				worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), 0)
			})
		})
	}
}

// Law 7: an entry that another program wrote under the same key is not taken for what a failed Send left.
func TestLaw7AnotherEntryUnderTheSameKeyStays(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 1)
		var first string
		for b := range w.openedBlobs(t) {
			first = b.Key
		}
		e, _ := parseKey(first)
		e.seq++
		if _, err := w.spool.file.blobs.Put(t.Context(), e.key(), []byte("another program's"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		before := w.spool.State().Bytes
		if spooled, err := w.send(t.Context(), 1); spooled || err == nil {
			t.Fatalf("spooled %v, error %v; want an error", spooled, err)
		}
		settle()
		w.wantInFile(2, before)
	})
}

// Law 7: a file that answers nothing any more doesn't fill the memory with what it owes.
func TestLaw7DoubtsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var f flaky
		w.start(Config{}, f.over)
		w.mood.Store(away)
		f.before.Store("delete blob")
		f.after.Store("put blob")
		var err error
		for n := 0; !errors.Is(err, errDoubts); n++ {
			if _, err = w.send(t.Context(), n); err == nil || n > mostDoubts {
				t.Fatalf("send %d: got %v, want that too many writes are in doubt", n, err)
			}
		}
		worldtest.Want(t, "doubts", len(w.spool.index.inDoubt()), mostDoubts)
		f.before.Store("")
		f.after.Store("")
		settle()
		w.wantInFile(0, 0)
		w.keep(1, 2)
	})
}

// Law 6: an operator may discard an entry that waits while the store is away. That says nothing about the store, and
// nothing against the other entries.
func TestLaw6DiscardOfAWaitingEntry(t *testing.T) {
	for name, left := range map[string]int{"some": 1, "all": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start(Config{}, nil)
				w.mood.Store(away)
				w.keep(0, 6)
				all, bytes := w.listed(), int64(0)
				for _, e := range all[:left] {
					bytes += e.Bytes
				}
				for _, e := range all[left:] {
					if err := Discard(t.Context(), w.path, e.ID, "ada", "wrong"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				w.wantWaiting(int64(left))
				w.wantInFile(left, bytes)
				worldtest.Want(t, "who discarded", w.log.Count("WARN an operator has discarded messages", "by=ada"), 6-left)
				worldtest.Want(t, "unknown hands", w.log.Count("somebody has removed"), 0)
				worldtest.Want(t, "returns of the store", w.log.Count("INFO the store is back"), 0)
				if away := w.spool.Away() != nil; away != (left > 0) {
					t.Errorf("the store is away: %v, while %d messages wait", away, left)
				}
				w.spool.index.mu.Lock()
				for _, lane := range w.spool.index.order {
					for _, e := range lane {
						worldtest.Want(t, "blame", e.blamed, 0)
					}
				}
				w.spool.index.mu.Unlock()
				w.mood.Store(up)
				settle()
				worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), left)
				w.wantInFile(0, 0)
			})
		})
	}
}

// Law 7: a damaged entry among others is set aside once, also while the store is away.
func TestLaw7ADamagedEntryInABatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 4)
		w.damage(t.Context(), w.listed()[1].ID)
		time.Sleep(5 * time.Minute)
		want := func(waiting int64) {
			t.Helper()
			if st := w.spool.State(); st.Waiting != waiting || st.Refused != 1 || st.Reason != errDamaged.Error() {
				t.Errorf("got %+v, want that %d wait and one is set aside; log:\n%s", st, waiting, w.log)
			}
			worldtest.Want(t, "log lines", w.log.Count("are set aside"), 1)
		}
		want(3)
		w.mood.Store(up)
		time.Sleep(2 * asideFor) // it is tried again
		synctest.Wait()
		want(0)
		worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), 3)
	})
}

// damage changes a byte of an entry by another connection, and reports whether the entry was still there.
func (w *world) damage(ctx context.Context, id string) bool {
	w.t.Helper()
	other := w.openLocal()
	defer other.Close()
	blobs := other.Blobs(container)
	for b, err := range blobs.List(ctx, fmt.Sprintf("%020s.", id)) {
		if err != nil {
			w.t.Fatal(err)
		}
		blob, err := blobs.Get(ctx, b.Key, "")
		if err == nil {
			blob.Body[len(blob.Body)/2] ^= 1
			_, err = blobs.Put(ctx, b.Key, blob.Body, storage.Condition{IfMatch: blob.ETag})
		}
		switch {
		case err == nil:
			return true
		case !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrPrecondition):
			w.t.Fatal(err)
		}
	}
	return false
}
