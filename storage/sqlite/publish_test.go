package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

func takesOne([]byte, int) int { return 1 }

// A Registration is lost when its socket's file is removed, and when the store is closed. After a loss Subscribe works
// again.
func TestRegistrationIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b := openAt(t, path, "")
	published := func() int {
		n, err := b.Listener().Publish(t.Context(), "topic", nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	h, err := a.Subscribe(t.Context(), "topic", takesOne)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "not published", func() bool { return published() == 1 })
	names, err := filepath.Glob(path + "-wake/ear-*")
	if len(names) != 1 || err != nil {
		t.Fatalf("sockets %q, %v", names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss isn't published", func() bool {
		select {
		case <-h.Lost():
			return true
		default:
			return false
		}
	})
	h.Close()
	if h, err = a.Subscribe(t.Context(), "topic", takesOne); err != nil {
		t.Fatal(err)
	}
	until(t, "not published again", func() bool { return published() == 1 })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	<-h.Lost()
	if _, err := a.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Subscribe after Close: error %v", err)
	}
	if _, err := a.Publish(t.Context(), "topic", nil, true); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Publish after Close: error %v", err)
	}
	if n := published(); n != 0 {
		t.Errorf("published to %d stores after Close", n)
	}
}

// A Registration that begins after the socket's file is gone isn't lost, and those before it are.
func TestHearFindsTheSocketGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := openAt(t, path, "")
	isLost := func(h driver.Registration) bool {
		select {
		case <-h.Lost():
			return true
		default:
			return false
		}
	}
	var before driver.Registration
	for i := range 20 {
		h, err := s.Listener().Subscribe(t.Context(), "topic", takesOne)
		if err != nil {
			t.Fatal(err)
		}
		if isLost(h) || before != nil && !isLost(before) {
			t.Fatalf("Registration %d: lost %v; want only the one before it lost", i+1, isLost(h))
		}
		before = h
		names, err := filepath.Glob(path + "-wake/ear-*")
		if len(names) != 1 || err != nil {
			t.Fatalf("sockets %q, %v", names, err)
		}
		if err := os.Remove(names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// A store with wake=off publishes to its own receivers alone, without a file, also under virtual time.
func TestPublishWithoutWake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		a, b := openAt(t, path, "?wake=off&sync=normal"), openAt(t, path, "?wake=off&sync=normal")
		if _, err := a.Listener().Subscribe(t.Context(), "topic", takesOne); err != nil {
			t.Fatal(err)
		}
		for s, want := range map[*store]int{a: 1, b: 0} {
			for _, one := range []bool{true, false} {
				if n, err := s.Listener().Publish(t.Context(), "topic", nil, one); n != want || err != nil {
					t.Errorf("received by %d, error %v; want %d", n, err, want)
				}
			}
		}
	})
	if _, err := os.Stat(path + "-wake"); !os.IsNotExist(err) {
		t.Errorf("a folder was made (%v)", err)
	}
}

// Without its folder a store refuses subscriptions and says so. It still publishes to its own receivers, if it can.
func TestHearWithoutTheFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path+"-wake", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, "").Listener()
	if _, err := s.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Subscribe: error %v", err)
	}
	if n, err := s.Publish(t.Context(), "topic", nil, true); n != 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Publish: %d, error %v", n, err)
	}
}
