package quorum_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// On three accounts a lock is held, taken over from a holder that is cut off, and held while one account is away. It
// takes real time, because Azurite is real.
func TestOnAzure(t *testing.T) {
	const realTTL = 8 * time.Second // a busy machine's Azurite may take a second for an answer
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	var stores []*storage.Store
	for range 3 {
		s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		stores = append(stores, s)
	}
	get := func(stores []*storage.Store, want int64) *quorum.Lock {
		t.Helper()
		l, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: realTTL})
		if err != nil {
			t.Fatal(err)
		}
		if l.Fence() < want {
			t.Errorf("fence %d, want at least %d", l.Fence(), want)
		}
		return l
	}
	first := get(stores, 1)
	for _, s := range stores { // one that has no fence might have forgotten it, so later no other one may be away
		for err := storage.ErrNotFound; err != nil; {
			if _, err = s.Blobs("quorum").Get(t.Context(), name, ""); err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	if _, err := quorum.Try(t.Context(), stores, name, quorum.Config{TTL: realTTL}); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("Try of a lock that is held: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	cut := newProcess(stores)
	second := get(cut.stores, first.Fence()+1)
	for _, link := range cut.links {
		link.Cut()
	}
	lame := newProcess(stores)
	lame.links[1].Cut()
	third := get(lame.stores, second.Fence()+1)
	if got := context.Cause(second.Context()); !errors.Is(got, quorum.ErrLost) {
		t.Errorf("the lock of the holder that was cut off ended with %v", got)
	}
	select { // long enough to need renewals
	case <-third.Context().Done():
		t.Errorf("with one account away: %v", context.Cause(third.Context()))
	case <-time.After(realTTL):
	}
	if err := third.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
