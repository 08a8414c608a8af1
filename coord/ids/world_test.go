package ids_test

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

const (
	name      = "orders"
	container = "counters"
)

// TestMain runs the test binary as another process of the program when a test has started it as one.
func TestMain(m *testing.M) {
	if url := os.Getenv(envStore); url != "" {
		os.Exit(child(url))
	}
	os.Exit(m.Run())
}

var azurite = sync.OnceValues(azuretest.Launch)

func open(t testing.TB, s *storage.Store, cfg ids.Config) *ids.Sequence {
	t.Helper()
	q, err := ids.Open(s, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func take(t testing.TB, q *ids.Sequence) int64 {
	t.Helper()
	n, err := q.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// takeAll takes n numbers, which must follow one another from first.
func takeAll(t testing.TB, q *ids.Sequence, first, n int64) {
	t.Helper()
	for i := range n {
		if got := take(t, q); got != first+i {
			t.Fatalf("got %d, want %d", got, first+i)
		}
	}
}

func finish(t testing.TB, q *ids.Sequence) {
	t.Helper()
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// next returns the counter's next free number as stored.
func next(t testing.TB, s *storage.Store) int64 {
	t.Helper()
	for c, err := range ids.List(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Name == name {
			return c.Next
		}
	}
	return 0
}

func wantNext(t testing.TB, s *storage.Store, want int64) {
	t.Helper()
	if got := next(t, s); got != want {
		t.Errorf("the counter is at %d, want %d", got, want)
	}
}

func put(t testing.TB, s *storage.Store, key, body string) {
	t.Helper()
	if _, err := s.Blobs(container).Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s *storage.Store) string {
	t.Helper()
	b, err := s.Blobs(container).Get(t.Context(), name, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(b.Body)
}

// weather is bad for one process. late counts the writes that are still to come.
func weather(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	return agreetest.Weather{Odds: 12, Slow: 500 * time.Millisecond, Late: 10 * time.Second}.Over(s, r, late)
}
