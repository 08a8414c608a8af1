package storagetest

import (
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// hold is a visibility that doesn't end within a test.
const hold = 5 * time.Minute

// secret is in bodies; no error may tell it.
const secret = "s3cret-b0dy"

// check is one running test: its store, its context and its assumptions.
type check struct {
	asserts
	s     *storage.Store // shared with other tests
	names *atomic.Int64
}

// name returns a name that no other test uses.
func (t *check) name(kind string) string { return fmt.Sprintf("%s-%d", kind, t.names.Add(1)) }

// own opens a store that the test may close.
func (t *check) own() *storage.Store {
	t.Helper()
	return openStore(t.T, t.cfg)
}

// absent is the panic that leaves a test out. It is no skip, because a store that doesn't claim an ability proves
// all it claims. Where skips are failures, a skip means that something is missing.
type absent string

// leaveOut ends the test of an ability that the store doesn't claim.
func (t *check) leaveOut(why string) { panic(absent(why)) }

// again opens s's place a second time, or leaves the test out.
func (t *check) again(s *storage.Store) *storage.Store {
	t.Helper()
	if t.cfg.Reopen == nil {
		t.leaveOut("Config.Reopen is not set")
	}
	b := t.cfg.Reopen(t.T, s)
	t.Cleanup(func() { t.ok(b.Close()) })
	return b
}

// short is the shortest visibility or delay that certainly isn't over at once.
func (t *check) short() time.Duration {
	return storage.MinVisibility + t.cfg.Precision.Truncate(time.Second)
}

// many is n, or fewer for a slow engine.
func (t *check) many(n int) int {
	if t.cfg.Short {
		return max(n/10, 5)
	}
	return n
}

// collect reads a listing to its end. It fails the test if the listing goes on after an error.
func collect[T any](t *check, seq iter.Seq2[T, error]) ([]T, error) {
	t.Helper()
	var items []T
	var failed error
	for it, err := range seq {
		switch {
		case failed != nil:
			t.Fatalf("listing goes on after its error %v with (%v, %v)", failed, it, err)
		case err != nil:
			failed = err
		default:
			items = append(items, it)
		}
	}
	return items, failed
}

// filled returns n bytes that are not valid UTF-8, and different for each seed.
func filled(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8) ^ seed
	}
	return b
}
