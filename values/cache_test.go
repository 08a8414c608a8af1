package values_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The memory of documents is bounded by their bytes, too. A document larger than all of it evicts no other.
func TestMemoryOfDocumentsInBytes(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		c := collectionOf(t, storagetest.Intercept(s, calls.Hook), values.Config[string]{CacheBytes: 5000})
		grow := func(key string, size int) {
			t.Helper()
			text := set(func(string) string { return strings.Repeat("x", size) })
			worldtest.WantErr(t, c.Apply(t.Context(), key, changed(t, text), nil)[0].Err, nil)
		}
		reads := 0
		wantReads := func(what string, more int) {
			t.Helper()
			reads += more
			worldtest.Want(t, "reads after "+what, calls.Count("get blob"), reads)
		}
		for range 3 {
			grow("a", 2000)
			grow("b", 2000)
		}
		wantReads("two that fit", 2)
		grow("large", 6000)
		grow("large", 6000)
		wantReads("a large one", 2)
		grow("a", 2000)
		grow("b", 2000)
		wantReads("the two", 0)
		grow("c", 2000) // a is evicted
		grow("b", 2000)
		wantReads("a third", 1)
		grow("a", 2000) // c is evicted
		wantReads("the first", 1)
		grow("b", 4000) // a is evicted
		grow("a", 100)
		wantReads("one that grew", 1)
		grow("b", 4000)
		wantReads("it again", 0)
	})
}

// All faults of a Config are reported together, before and instead of any work.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		store := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			t.Errorf("%s was called", op.Name)
			return do()
		})
		bad := values.Config[Account]{Window: -1, Retention: -time.Hour, PendingAfter: -time.Second, Cache: -2, CacheBytes: -3, MaxRaces: -4}
		p := newProcess(t, store, bad)
		_, got := p.Accounts.Get(t.Context(), "k", "")
		errs := map[string]error{
			"check":  p.Accounts.Check(),
			"get":    got,
			"apply":  p.apply("k", p.change(newID(), 1))[0],
			"update": p.Accounts.Update(t.Context(), "k", func(v Account) (Account, bool) { return v, true }),
		}
		for what, err := range errs {
			for _, fault := range []string{`"accounts"`, "Window is -1", "Retention is -1h0m0s", "PendingAfter is -1s", "Cache is -2", "CacheBytes is -3", "MaxRaces is -4"} {
				if err == nil || !strings.Contains(err.Error(), fault) {
					t.Errorf("%s: got error %v; want one that says %q", what, err, fault)
				}
			}
		}
		one := newProcess(t, store, values.Config[Account]{MaxRaces: -1})
		if err := one.Accounts.Check(); err == nil || strings.Contains(err.Error(), "Cache") {
			t.Errorf("one fault: got error %v; want that alone", err)
		}
		if err := newProcess(t, store, values.Config[Account]{}).Accounts.Check(); err != nil {
			t.Errorf("the zero Config: got error %v", err)
		}
		if errors.Is(errs["get"], storage.ErrUnavailable) {
			t.Error("a fault that stays looks like one that passes")
		}
	})
}
