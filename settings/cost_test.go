package settings_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A tallied is what a node asks of its store.
type tallied struct {
	mu    sync.Mutex
	calls map[string]int // by operation
}

func (x *tallied) over(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		x.mu.Lock()
		x.calls[op.Name]++
		x.mu.Unlock()
		return do()
	})
}

// take returns what was asked since the last call.
func (x *tallied) take() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	calls := x.calls
	x.calls = map[string]int{}
	return calls
}

// A node makes few requests when it starts, and three at each poll.
func TestWhatANodeCosts(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		x := &tallied{calls: map[string]int{}}
		_ = node(t, x.over(s), settings.Config{Name: "a"})
		time.Sleep(poll / 2)
		if got, want := x.take(), map[string]int{"get blob": 4, "list blobs": 1, "put row": 3, "query": 2, "subscribe": 1}; !maps.Equal(got, want) {
			t.Errorf("a start makes the requests %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		got := x.take()
		n := got["get blob"]
		if want := map[string]int{"get blob": n, "put row": n, "query": n}; !maps.Equal(got, want) || n < int(time.Hour/poll) || n > 1+int(5*time.Hour/(4*poll)) {
			t.Errorf("an hour makes the requests %v, want three for each of 120 to 151 polls", got)
		}
	})
}
