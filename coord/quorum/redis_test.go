package quorum_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// nodes starts three independent Redis servers, and opens a store on each for several programs.
func nodes(t *testing.T, programs int) (servers []*redistest.Server, stores [][]*storage.Store) {
	t.Helper()
	for range 3 {
		servers = append(servers, redistest.Start(t, redistest.Config{Always: true}))
	}
	for range programs {
		var own []*storage.Store
		for _, s := range servers {
			own = append(own, openRedis(t, s))
		}
		stores = append(stores, own)
	}
	return servers, stores
}

func openRedis(t *testing.T, s *redistest.Server) *storage.Store {
	t.Helper()
	store, err := redis.Open(t.Context(), s.URL("locks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // the server may be dead
	return store
}

func get(t *testing.T, stores []*storage.Store) *quorum.Lock {
	t.Helper()
	l, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: realTTL})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// granted waits until all stores, and not only a majority, have granted a lock.
func granted(t *testing.T, stores []*storage.Store, l *quorum.Lock) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range stores {
		for fenceIn(t, s) != l.Fence() {
			select {
			case <-tick.C:
			case <-l.Context().Done():
				t.Fatal(context.Cause(l.Context()))
			}
		}
	}
}

// fenceIn returns the fence in a store's document, 0 if there is none.
func fenceIn(t *testing.T, s *storage.Store) int64 {
	t.Helper()
	b, err := s.Blobs("quorum").Get(t.Context(), name, "")
	if errors.Is(err, storage.ErrNotFound) {
		return 0
	}
	var d struct{ Fence int64 }
	if err == nil {
		err = json.Unmarshal(b.Body, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Fence
}

func held(t *testing.T, stores []*storage.Store, when string) {
	t.Helper()
	if l, err := quorum.Try(t.Context(), stores, name, quorum.Config{TTL: realTTL}); !errors.Is(err, quorum.ErrHeld) {
		t.Fatalf("%s: another program gets lock %d, %v", when, drop(l), err)
	}
}

// renewed waits for longer than the lock would last without renewals, and fails the test if it ends.
func renewed(t *testing.T, l *quorum.Lock, when string) {
	t.Helper()
	select {
	case <-l.Context().Done():
		t.Fatalf("%s: %v", when, context.Cause(l.Context()))
	case <-time.After(realTTL * 3 / 2):
	}
}

// One of three Redis nodes is killed under a holder, and comes back; another one stands still. The holder keeps its
// lock by the other two, and nobody else gets it. After the release the next holder has a larger fence.
func TestARedisNodeIsKilledAndAnotherStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	servers, programs := nodes(t, 2)
	l := get(t, programs[0])
	granted(t, programs[0], l)
	servers[0].Kill(t)
	held(t, programs[1], "a node is dead")
	renewed(t, l, "a node is dead")
	servers[0].Restart(t)
	renewed(t, l, "the node is back")
	held(t, programs[1], "the node is back")
	servers[1].Stall(t)
	renewed(t, l, "a node stands still")
	held(t, programs[1], "a node stands still")
	servers[1].Resume(t)
	release(t, l)
	next := get(t, programs[1])
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
	release(t, next)
}

// Redlock's own failure: a node's master dies before its replica has the lock, and the replica is promoted. One node's
// lock would now be held twice. This one isn't, because the holder has more grants than a majority, and the next holder
// has a larger fence.
func TestARedisMasterDiesBeforeItsReplicaHasTheLock(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	servers, programs := nodes(t, 2)
	old := get(t, programs[0]) // the replica gets its document
	granted(t, programs[0], old)
	release(t, old)
	replica := redistest.Start(t, redistest.Config{ReplicaOf: servers[0]})
	replica.Promote(t) // from now on nothing comes to it: what it has is what a stale replica has
	l := get(t, programs[0])
	granted(t, programs[0], l)
	servers[0].Kill(t)
	other := []*storage.Store{openRedis(t, replica), programs[1][1], programs[1][2]}
	if fence := fenceIn(t, other[0]); fence != old.Fence() {
		t.Fatalf("the replica has fence %d, want that of the state before the lock, %d", fence, old.Fence())
	}
	held(t, other, "a stale replica is promoted")
	renewed(t, l, "a stale replica is promoted")
	held(t, other, "a stale replica is promoted for long")
	release(t, l)
	next := get(t, other)
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
	release(t, next)
}
