package row

import (
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

const ttl = 20 * time.Second

// joined is what a bucket stands on whose keeper is the test.
func joined(ttl time.Duration) bucket.Config {
	return bucket.Config{TTL: ttl, Join: func(*bucket.Bucket) (wake func()) { return func() {} }}
}

// newMember returns a member of a number, whose goroutine is the test. A call has come.
func newMember(store *storage.Store, key string, b *bucket.Bucket, cfg Config) *member {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	_, _ = b.Take()
	return NewKeeper(store, key, cfg).join(b)
}

// Law 1: a member goes only if its bucket is idle at the moment when it gives its share up. A call that takes a slot
// just before keeps it, and no other process has it, too.
func TestLaw1ASlotIsKeptWhileTheMemberGoes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, store *storage.Store) {
		open := func(key string) (*bucket.Bucket, *member) {
			b := bucket.NewSlots(1, joined(ttl))
			return b, newMember(store, key, b, Config{TTL: ttl})
		}
		first, m := open("slots/bank")
		idle, goer := open("slots/other") // with the same calls, but the last
		for range 5 {
			for _, m := range []*member{m, goer} {
				if err := m.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(ttl / 3)
		}
		if first.Share() != 1 || idle.Share() != 1 {
			t.Fatalf("the buckets have %d and %d slots", first.Share(), idle.Share())
		}
		if _, ok := first.Take(); !ok {
			t.Fatal("there is no slot")
		}
		if tried, left := goer.goes(t.Context()); !tried || !left {
			t.Fatalf("got %v, %v: the bucket isn't idle without that call", tried, left)
		}
		if tried, left := m.goes(t.Context()); tried || left {
			t.Errorf("got %v, %v: the member went with a slot in use", tried, left)
		}
		if err := m.look(t.Context()); err != nil || m.seen.Doc.Members[m.id].Share != 1 || first.Share() != 1 {
			t.Errorf("got %+v, %v: the slot in use isn't in the document", m.seen.Doc, err)
		}
		first.Give()
		time.Sleep(2 * ttl)
		if tried, left := m.goes(t.Context()); !tried || !left {
			t.Errorf("got %v, %v: an idle member stays", tried, left)
		}
		if err := m.look(t.Context()); err != nil || len(m.seen.Doc.Members) != 0 {
			t.Errorf("got %+v, %v: the row stays", m.seen.Doc, err)
		}
	})
}
