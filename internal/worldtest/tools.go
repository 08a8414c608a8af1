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

// Virtual are a store's parameters for a test in virtual time: the store has no rings from other processes, and
// doesn't wait for a disk.
const Virtual = "?wake=off&sync=normal"

// OpenStore opens a store in a file in a temporary folder, with parameters such as [Virtual]. The end of the test
// closes it.
func OpenStore(t testing.TB, parameters string) *storage.Store {
	t.Helper()
	return OpenAt(t, filepath.Join(t.TempDir(), "test.db")+parameters)
}

// OpenAt opens the store in a file, which other links to it may share. The end of the test closes this link.
func OpenAt(t testing.TB, place string) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), place)
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

// OnEachStore runs a test in virtual time on two stores: one whose Commit is atomic, and one that commits in steps.
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

// IDAt returns a UUIDv7 of a time, the same in every run. channel.NewID can't be used: it never goes back behind
// the time of another test.
func IDAt(at time.Time, n int) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}

// Pause waits for d, or until ctx ends.
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

// Eventually waits until check returns nil, a minute at most.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	late := time.After(time.Minute)
	for pause := 2 * time.Millisecond; ; pause = min(pause*3/2, 100*time.Millisecond) { // a check may cost much
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-late:
			t.Fatalf("not in time: %v", err)
		}
	}
}

// Want fails the test unless got is want.
func Want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// WantErr fails the test unless got is, or wraps, want.
func WantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}
