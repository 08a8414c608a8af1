package keylock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/storage"
)

const (
	group = "sync"
	ttl   = 30 * time.Second
)

func newTurns(t testing.TB, s *storage.Store) *keylock.Turns {
	t.Helper()
	ts, err := keylock.New(s, group, keylock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func take(t testing.TB, ts *keylock.Turns, key string) *keylock.Turn {
	t.Helper()
	x, err := ts.Take(context.Background(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantHeld(t testing.TB, ts *keylock.Turns, key string) {
	t.Helper()
	if _, err := ts.Take(context.Background(), key, nil); !errors.Is(err, keylock.ErrHeld) {
		t.Errorf("key %q: got error %v, want ErrHeld", key, err)
	}
}

func end(t testing.TB, x *keylock.Turn, s keylock.State) {
	t.Helper()
	if err := x.End(context.Background(), s); err != nil {
		t.Error(err)
	}
}

// row reads a row as it is stored.
func row(t testing.TB, s *storage.Store, key string) (string, bool) {
	t.Helper()
	r, err := s.Table("turns").Get(t.Context(), group, key)
	if errors.Is(err, storage.ErrNotFound) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Data), true
}
