package doctor_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// Law: one listing counts the poison queues and finds the latest entries of the first ones. An examination makes no
// other.
func TestLawOneListingFindsTheLatest(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put := func(queue string, n int) {
		raw, err := json.Marshal(poison.Entry{Queue: queue, Reason: "no budget"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Blobs("poison").Put(t.Context(), fmt.Sprintf("%s/%02d", queue, n), raw, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{4, 9, 1, 7, 3, 8, 2} { // their keys are in another order than their times
		for _, queue := range []string{"b", "a", "c"} {
			put(queue, n)
		}
	}
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	names, poisoned, latest, err := look.QueuesAndLatest(t.Context(), desk, 3, 2)
	if err != nil || !slices.Equal(names, []string{"a", "b", "c"}) || poisoned["c"] != 7 || len(latest) != 2 {
		t.Fatalf("got %v, %v, %v, %v", names, poisoned, latest, err)
	}
	for queue, got := range latest {
		var all []poison.State
		for e, err := range poison.States(t.Context(), s, queue) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		slices.SortStableFunc(all, func(a, b poison.State) int { return b.Put.Compare(a.Put) }) // they stand in the order of their keys
		if !slices.Equal(got, all[:3]) {
			t.Errorf("queue %s: got %v, want the first of %v", queue, got, all)
		}
	}
	before := listings(s)
	if _, err := doctor.Examine(t.Context(), desk, doctor.Lag); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "listings of an examination", listings(s)-before, 1)
}

// listings counts those of poison queues.
func listings(s *storage.Store) (n int) {
	for _, r := range s.Requests() {
		if r.Op == "list" && r.Target == "poison" {
			n += int(r.Count)
		}
	}
	return n
}
