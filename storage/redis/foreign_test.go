package redis

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// everything writes a key of each kind, and returns a receipt of a message with a key.
func everything(t *testing.T, s *storage.Store) storage.Receipt {
	t.Helper()
	q := s.Queue("jobs")
	must(t, q.Send(t.Context(), []storage.Message{{Body: []byte("keyed"), Key: "gone"}}))
	receipt := receiveOne(t, q, time.Hour).Receipt
	must(t, q.Send(t.Context(), []storage.Message{{Body: []byte("late"), Delay: time.Hour}, {Body: []byte("now")}, {Body: []byte("twice"), Key: "k"}}))
	for range 2 { // one is delivered again
		d, err := q.Receive(t.Context(), 1, time.Hour)
		must(t, err)
		_, err = q.Extend(t.Context(), d[0].Receipt, 0)
		must(t, err)
	}
	_, err := s.Blobs("docs").Put(t.Context(), "d", []byte("doc"), storage.Condition{})
	must(t, err)
	_, err = s.Table("rows").Put(t.Context(), "p", "r", []byte("row"), storage.Condition{})
	must(t, err)
	return receipt
}

// wholeUnit writes, sends and deletes.
func wholeUnit(s *storage.Store, receipt storage.Receipt) storage.Work {
	return storage.Work{
		Write: &storage.Write{Container: "docs", Key: "d", Body: []byte("new")},
		Rows:  &storage.Rows{Table: "rows", Partition: "p", Puts: []storage.RowPut{{Key: "r", Data: []byte("new")}, {Key: "r2"}}},
		Send: []storage.Send{
			{Queue: "jobs", Message: storage.Message{Body: []byte("plain")}}, {Queue: "other", Message: storage.Message{Body: []byte("other")}},
			{Queue: "jobs", Message: storage.Message{Body: []byte("delayed"), Delay: time.Hour}}, {Queue: "jobs", Message: storage.Message{Body: []byte("keyed"), Key: "k"}},
		},
		Delete: []storage.Claim{{Queue: "jobs", Receipt: receipt}},
	}
}

// dump returns all that a store has, but its own hash.
func dump(t *testing.T, server *redistest.Server, prefix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	own := "{" + prefix + "}"
	for key := range strings.SplitSeq(server.Do(t, "KEYS", own+":*"), "\n") {
		all[key] = server.Do(t, "DUMP", key)
	}
	return all
}

// becomeForeign replaces a key by one of a type that no key of that kind has.
func becomeForeign(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	kind := server.Do(t, "TYPE", key)
	server.Do(t, "DEL", key)
	if kind == "string" {
		server.Do(t, "RPUSH", key, "foreign")
	} else {
		server.Do(t, "SET", key, "foreign")
	}
}

// A key that holds something of another program fails the unit that needs the key, alone, with an error that says so.
// Nothing of that unit is written. Units of other callers, in the same call of the server, are done.
func TestKeysOfForeignTypes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	for _, kind := range []string{":q:jobs:r", ":q:jobs:b", ":q:jobs:v", ":q:jobs:d", ":q:jobs:o", ":q:jobs:n", ":q:jobs:i", ":q:jobs:k:k", ":q:jobs:k:gone",
		":D:docs\x00d", ":c:docs", ":T:rows\x00p", ":K:rows\x00p", ":Q"} {
		t.Run(strings.ReplaceAll(kind, "\x00", " "), func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Fresh()
			s, _ := openStore(t, server.URL(prefix))
			receipt := everything(t, s)
			key := "{" + prefix + "}" + kind
			if server.Do(t, "EXISTS", key) != "1" {
				t.Fatalf("there is no key %q; there are %q", key, slices.Sorted(maps.Keys(dump(t, server, prefix))))
			}
			becomeForeign(t, server, key)
			before := dump(t, server, prefix)
			_, err := s.Commit(t.Context(), wholeUnit(s, receipt))
			wantError(t, err, storage.ErrUnavailable, "another program", prefix)
			if after := dump(t, server, prefix); !maps.Equal(before, after) {
				t.Errorf("the unit that failed has changed the keys %q", changedKeys(before, after))
			}
			alone(t, s, receipt)
		})
	}
}

func changedKeys(a, b map[string]string) []string {
	var names []string
	for k := range b {
		if a[k] != b[k] {
			names = append(names, k)
		}
	}
	return names
}

// alone makes a unit that fails and many that don't, at once.
func alone(t *testing.T, s *storage.Store, receipt storage.Receipt) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%10 == 5 {
				if _, err := s.Commit(t.Context(), wholeUnit(s, receipt)); !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("the unit at fault: %v", err)
				}
				return
			}
			if _, err := s.Blobs("good").Put(t.Context(), "x", []byte("x"), storage.Condition{}); err != nil {
				t.Errorf("a unit without fault: %v", err)
			}
		})
	}
	all.Wait()
}

// A claim that needs a key of a foreign type fails, and changes nothing. Sends go on where they don't need the key.
func TestAClaimMeetsAForeignType(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	for _, kind := range []string{":q:jobs:r", ":q:jobs:b", ":q:jobs:v", ":q:jobs:d", ":q:jobs:o", ":q:jobs:n"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Fresh()
			s, _ := openStore(t, server.URL(prefix))
			everything(t, s)
			becomeForeign(t, server, "{"+prefix+"}"+kind)
			before := dump(t, server, prefix)
			_, err := s.Queue("jobs").Receive(t.Context(), 10, time.Minute)
			wantError(t, err, storage.ErrUnavailable, "another program", prefix)
			if after := dump(t, server, prefix); !maps.Equal(before, after) {
				t.Errorf("the claim that failed has changed the keys %q", changedKeys(before, after))
			}
			must(t, s.Queue("other").Send(t.Context(), texts("x")))
		})
	}
}

// A key of a foreign type in one queue keeps no dead process's messages in other queues.
func TestReleaseLeavesOutAQueueOfForeignTypes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	prefix := redistest.Fresh()
	s, _ := openStore(t, server.URL(prefix))
	for _, name := range []string{"aaa", "bbb", "ccc"} {
		must(t, s.Queue(name).Send(t.Context(), texts("x")))
	}
	other, inner := openStore(t, server.URL(prefix))
	for _, name := range []string{"aaa", "bbb", "ccc"} {
		receiveOne(t, other.Queue(name), time.Hour)
	}
	becomeForeign(t, server, "{"+prefix+"}:q:bbb:v")
	inner.ear.close() // as the end of its process does
	for _, name := range []string{"aaa", "ccc"} {
		until(t, "the message of the dead process comes again", func() bool {
			got, err := s.Queue(name).Receive(t.Context(), 1, time.Hour)
			return err == nil && len(got) == 1
		})
	}
}
