package sqlite

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// The store's own writes are no change, those of another store are, in this process or another.
func TestHasChanged(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	silent := openAt(t, s.path, "?wake=off")
	for range 3 {
		send(t, s, "queue", "own")
		if s.hasChanged() {
			t.Error("changed by the store itself")
		}
		send(t, silent, "queue", "another's")
		if !s.hasChanged() {
			t.Error("no change, though another store has written")
		}
	}
}

// A change by another process is not missed when the group that asks for it is repeated or undone.
func TestChangeSeenInARepeatedGroup(t *testing.T) {
	t.Parallel()
	virtual(t, changeSeenInARepeatedGroup)
}

func changeSeenInARepeatedGroup(t *testing.T, s *store) {
	silent := openAt(t, s.path, "?wake=off")
	if s.hasChanged() {
		t.Error("changed before anybody has written")
	}
	if _, err := silent.Blobs("docs").Put(t.Context(), "key", []byte("x"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	broken := &Error{Code: sqliteFull}
	release := hold(t, s)
	defer release()
	var changed bool
	asked := enqueue(func() error { changed = s.hasChanged(); return nil })
	failed := enqueue(func() error {
		return s.write(&engine.Op{Ctx: t.Context()}, func(*tx) error { return broken })
	})
	release()
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if <-asked; !changed {
		t.Error("no change, though another store has written")
	}
	if s.hasChanged() {
		t.Error("the same change twice")
	}
}
