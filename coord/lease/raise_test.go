package lease_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

// A lease that was deleted, damaged or set back goes on with larger fences, and with no two holders: the present one
// learns that it has lost the lease before anybody else gets it.
func TestRaise(t *testing.T) {
	t.Parallel()
	for how, body := range map[string]string{"deleted": "", "damaged": "junk", "set back": `{"holder":"old","id":"x","fence":1,"ttl":3000}`} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var seen watch
				held := acquire(t, s)
				seen.see(t, held)
				blobs := s.Blobs("leases")
				if body == "" {
					if err := blobs.Delete(t.Context(), name, storage.Condition{}); err != nil {
						t.Fatal(err)
					}
				} else if _, err := blobs.Put(t.Context(), name, []byte(body), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				if err := lease.Raise(t.Context(), s, name, 41, lease.Config{Holder: "ada", TTL: ttl}); err != nil {
					t.Fatal(err)
				}
				next := acquire(t, s)
				seen.see(t, next)
				if got, want := time.Since(begin), ttl*7/6; got != want || next.Fence() != 42 {
					t.Errorf("got fence %d after %v; want 42 after %v", next.Fence(), got, want)
				}
				wantCause(t, held, lease.ErrLost)
				release(t, next)
			})
		})
	}
}

func TestRaiseRefuses(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		for _, past := range []int64{-1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
			if err := lease.Raise(t.Context(), s, name, past, lease.Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "fence") {
				t.Errorf("past %d: %v", past, err)
			}
		}
		if err := lease.Raise(t.Context(), s, "a\n", 5, lease.Config{TTL: time.Second}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "TTL") {
			t.Errorf("a bad name and TTL: %v", err)
		}
		time.Sleep(2 * ttl)
		if err := l.Context().Err(); err != nil {
			t.Errorf("a refused raise ended the lease: %v", err)
		}
		release(t, l)
	})
}

func TestAnyCallOfRaiseFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 2, func(t *testing.T, failing, s *storage.Store) {
		if err := lease.Raise(t.Context(), failing, name, 7, lease.Config{TTL: ttl}); err != nil {
			t.Error(err)
		}
		wantState(t, s, true, 7)
	})
}
