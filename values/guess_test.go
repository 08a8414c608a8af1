package values_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// Where all keys are new, they are not read first. A key that only looks new is read: its messages are applied once, to
// the stored document, and that document decides about refusals.
func TestNewKeysAreNotRead(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		other := newProcess(t, s, values.Config[Account]{})
		id := newID()
		other.applied("known", other.change(id, 5))

		var reads atomic.Int64
		p := newProcess(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" && strings.HasPrefix(op.Resource, "blob accounts/") {
				reads.Add(1)
			}
			return do()
		}), values.Config[Account]{})
		for i := range 100 {
			p.applied(fmt.Sprintf("new-%d", i), p.change(newID(), i))
		}
		if n := reads.Load(); n > 10 {
			t.Errorf("100 new keys took %d reads", n)
		}
		p.applied("known", p.change(id, 5), p.change(newID(), 2)) // a replay, and a new message
		checkTotal(t, other, "known", 7, 2)

		for i := range 20 {
			p.applied(fmt.Sprintf("newer-%d", i), p.change(newID(), i))
		}
		// A replay alone writes nothing, so only a read shows that the guess was wrong.
		other.applied("replayed", other.change(id, 3))
		p.applied("replayed", p.change(id, 3))
		checkTotal(t, other, "replayed", 3, 1)
		for i := range 100 {
			p.applied("replayed", p.change(newID(), 1))
			checkTotal(t, other, "replayed", 4+i, uint64(2+i))
		}
	})
}

func checkTotal(t *testing.T, p *process, key string, total int, version uint64) {
	t.Helper()
	got, err := p.Accounts.Get(t.Context(), key, "")
	if err != nil || got.Value.Balance != total || got.Version != version {
		t.Fatalf("%s: got %+v, %v; want %d after %d messages", key, got, err, total, version)
	}
}
