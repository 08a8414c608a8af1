package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// die acquires the lease in a process that is killed.
func die(t *testing.T, s *storage.Store, cfg lease.Config) {
	t.Helper()
	link := storagetest.NewLink(s)
	cfg.TTL = ttl
	l, err := lease.Acquire(t.Context(), link.Store, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	<-l.Context().Done()
}

func wantHeld(t *testing.T, s *storage.Store) {
	t.Helper()
	if l, err := lease.Try(t.Context(), s, name, lease.Config{TTL: ttl}); !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("Try returned %v, %v; want ErrHeld", l, err)
	}
}

func wantTaken(t *testing.T, s *storage.Store, fence int64) {
	t.Helper()
	l, err := lease.Try(t.Context(), s, name, lease.Config{TTL: ttl})
	if err != nil || l.Fence() != fence {
		t.Fatalf("Try returned %v, %v; want the lease with fence %d", l, err, fence)
	}
	release(t, l)
}

func TestWhereAllOnlyTryADeadHolderIsFollowed(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		die(t, s, lease.Config{})
		other := storagetest.Plain(s) // another process
		wantHeld(t, s)
		time.Sleep(ttl*7/6 - 1)
		wantHeld(t, s)
		wantHeld(t, other)
		time.Sleep(time.Nanosecond)
		wantHeld(t, other) // it has seen the lease for a moment only
		wantTaken(t, s, 2)
	})
}

func TestTryLeavesAHolderThatRenewsAlone(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, storagetest.Plain(s))
		for range 20 {
			wantHeld(t, s)
			time.Sleep(ttl * 7 / 6)
		}
		release(t, l)
	})
}

func TestABreakFreesALeaseForThoseWhoTryOnce(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		die(t, s, lease.Config{})
		if err := lease.Free(t.Context(), s, name); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Free of a lease that isn't broken: %v, want ErrInvalid", err)
		}
		began := time.Now()
		if err := lease.Break(t.Context(), s, name, lease.Note{By: "an operator"}); err != nil {
			t.Fatal(err)
		}
		wantHeld(t, storagetest.Plain(s))
		if err := lease.Free(t.Context(), s, name); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < ttl*7/6 || d > ttl*7/6+2*time.Second {
			t.Errorf("the lease was free after %v, want %v", d, ttl*7/6)
		}
		wantTaken(t, storagetest.Plain(s), 2)
		if err := lease.Free(t.Context(), s, name); err != nil {
			t.Errorf("Free of a free lease: %v", err)
		}
		if err := lease.Free(t.Context(), s, "unknown"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Free of a lease that never was: %v", err)
		}
	})
}

func TestFreeEndsWhenABrokenHolderReleases(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, storagetest.Plain(s))
		began := time.Now()
		if err := lease.Break(t.Context(), s, name, lease.Note{By: "an operator"}); err != nil {
			t.Fatal(err)
		}
		go func() {
			<-l.Context().Done()
			release(t, l)
		}()
		if err := lease.Free(t.Context(), s, name); err != nil || time.Since(began) > ttl/2 {
			t.Errorf("Free returned %v after %v", err, time.Since(began))
		}
		wantTaken(t, s, 2)
	})
}
