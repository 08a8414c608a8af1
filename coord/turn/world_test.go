package turn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/turn"
	"github.com/millrace-go/millrace/storage"
)

const (
	group = "sync"
	ttl   = 30 * time.Second
)

func newTurns(t testing.TB, s *storage.Store) *turn.Turns {
	t.Helper()
	ts, err := turn.New(s, group, turn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func take(t testing.TB, ts *turn.Turns, key string) *turn.Turn {
	t.Helper()
	x, err := ts.Take(context.Background(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantHeld(t testing.TB, ts *turn.Turns, key string) {
	t.Helper()
	if _, err := ts.Take(context.Background(), key, nil); !errors.Is(err, turn.ErrHeld) {
		t.Errorf("key %q: got error %v, want ErrHeld", key, err)
	}
}

func end(t testing.TB, x *turn.Turn, s turn.State) {
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
