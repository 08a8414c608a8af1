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

// A Hearing is lost when its socket's file is removed, and when the store is closed. After a loss Hear works again.
func TestHearingIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b := openAt(t, path, "")
	told := func() int {
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
	until(t, "not told", func() bool { return told() == 1 })
	names, err := filepath.Glob(path + "-wake/ear-*")
	if len(names) != 1 || err != nil {
		t.Fatalf("sockets %q, %v", names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss isn't told", func() bool {
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
	until(t, "not told again", func() bool { return told() == 1 })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	<-h.Lost()
	if _, err := a.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Hear after Close: error %v", err)
	}
	if _, err := a.Publish(t.Context(), "topic", nil, true); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Tell after Close: error %v", err)
	}
	if n := told(); n != 0 {
		t.Errorf("told to %d stores after Close", n)
	}
}

// A Hearing that begins after the socket's file is gone isn't lost, and those before it are.
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
			t.Fatalf("Hearing %d: lost %v; want only the one before it lost", i+1, isLost(h))
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

// A store with wake=off tells its own ears alone, without a file, also under virtual time.
func TestTellWithoutWake(t *testing.T) {
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
					t.Errorf("heard by %d, error %v; want %d", n, err, want)
				}
			}
		}
	})
	if _, err := os.Stat(path + "-wake"); !os.IsNotExist(err) {
		t.Errorf("a folder was made (%v)", err)
	}
}

// Without its folder a store hears nothing and says so. It still tells its own ears, if it can.
func TestHearWithoutTheFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path+"-wake", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, "").Listener()
	if _, err := s.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Hear: error %v", err)
	}
	if n, err := s.Publish(t.Context(), "topic", nil, true); n != 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Tell: %d, error %v", n, err)
	}
}
