package worldtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Virtual are a store's parameters for a test in virtual time: no other process rings, and no disk is waited for.
const Virtual = "?wake=off&sync=normal"

// OpenStore opens a store in a file of a temporary folder, with parameters such as [Virtual]. The end of the test closes
// it.
func OpenStore(t testing.TB, parameters string) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// OnEachStore runs a test in virtual time, on a store whose Commit is atomic and on one that takes the steps.
func OnEachStore(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	for name, limit := range map[string]func(*storage.Store) *storage.Store{
		"atomic": func(s *storage.Store) *storage.Store { return s },
		"plain":  storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, limit(OpenStore(t, Virtual))) })
		})
	}
}

// IDAt is a UUIDv7 of a time, the same in every run. channel.NewID never goes back behind the time of another test.
func IDAt(at time.Time, n int) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}

// Pause waits, but no longer than ctx.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Eventually waits until check returns nil.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not in time: %v", err)
		}
	}
}

// Want compares.
func Want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// WantErr wants an error that is, or wraps, another one.
func WantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}
