package worker_test

import (
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/worker"
)

func TestCommandsToViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newStore(t))
	w.start(t, worker.Config{})
	const n, accounts = 500, 7
	want := map[string]int{}
	for i := range n {
		key := fmt.Sprintf("a-%d", i%accounts)
		want[key] += i
		if err := w.send.Send(t.Context(), add{Account: key, N: i}); err != nil {
			t.Fatal(err)
		}
	}
	w.drained(t)
	for key, sum := range want {
		object, err := w.accounts.Get(t.Context(), key, "")
		if err != nil {
			t.Fatal(err)
		}
		if object.Value.Sum != sum {
			t.Errorf("account %s: got sum %d, want %d", key, object.Value.Sum, sum)
		}
		view, _, err := w.totals.GetFresh(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if view != object.Value {
			t.Errorf("view %s: got %+v, want %+v", key, view, object.Value)
		}
	}
	if got := w.reacted.Load(); got != n {
		t.Errorf("reactions: got %d, want %d", got, n)
	}
}
