package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// put writes blobs that nobody can read.
func put(t *testing.T, s *storage.Store, container string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := s.Blobs(container).Put(t.Context(), name, []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// deskOf opens a desk.
func deskOf(t *testing.T, s *storage.Store) *act.Desk {
	t.Helper()
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

// Each finding of an examination has a key of its own.
func TestLawEachFindingHasItsKey(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "gates", "a", "b")
	put(t, s, "counters", "a", "b")
	put(t, s, "leases", "a", "b")
	put(t, s, "schedules", "a", "b")
	put(t, s, "programs", "a/v1", "a/v2")
	all, err := Examine(t.Context(), deskOf(t, s), time.Minute)
	if err != nil || len(all) < 10 {
		t.Fatalf("got %+v, %v; want ten findings", all, err)
	}
	seen := map[string]bool{}
	for _, f := range all {
		if seen[f.Key()] {
			t.Errorf("%s is the key of another finding, too: %+v", f.Key(), f)
		}
		seen[f.Key()] = true
	}
}

// A finding keeps its key while its numbers change.
func TestLawAKeyStays(t *testing.T) {
	t.Parallel()
	desk := &act.Desk{Known: &known.Programs{Queues: map[string]bool{"orders": true},
		Published: []catalog.Description{described("shop", "v1", time.Hour, "a", "a"), ahead(described("mail", "v7", time.Hour, "b", ""), 5*time.Minute)}}}
	keys := func(n int64) (all []string) {
		stats := storage.Stats{Ready: n, InFlight: n, Oldest: time.Duration(n) * time.Hour}
		for _, f := range programFindings(desk, []string{"orders"}, []storage.Stats{stats}, map[string]int64{"orders": n}, time.Minute) {
			all = append(all, f.Key())
		}
		return all
	}
	before := keys(1)
	desk.Known.Published[1].Last = desk.Known.Published[1].Last.Add(time.Minute)
	if after := keys(7); !slices.Equal(before, after) || len(before) < 4 {
		t.Errorf("got the keys %q, and later %q; want the same, and four", before, after)
	}
}

// A part of the store that can't be read hides the findings of that part alone, and the examination says which it would
// have seen.
func TestLawAPartThatFailsHidesNoOther(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "gates", "a")
	put(t, s, "schedules", "a")
	put(t, s, "poison", "orders/a")
	whole := Look(t.Context(), deskOf(t, s), time.Minute)
	if err := whole.Err(); err != nil {
		t.Fatal(err)
	}
	for part, checks := range map[string][]string{
		"container gates":     {"gates", "counters", "locks"},
		"container schedules": {"schedules"},
		"container poison":    {"poison", "lag", "consumers", "kinds", "pauses", "levels", "turns", "catalog", "clocks", "collections", "log", "versions"},
		"queues":              {},
	} {
		broken := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Resource == part {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		desk := deskOf(t, broken)
		x := Look(t.Context(), desk, time.Minute)
		if err := x.Err(); (err != nil) != (len(checks) > 0) || err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("without %s: got the error %v", part, err)
		}
		if _, err := Examine(t.Context(), desk, time.Minute); (err != nil) != (len(checks) > 0) {
			t.Errorf("without %s: Examine returned %v", part, err)
		}
		for _, f := range whole.Findings {
			there := slices.ContainsFunc(x.Findings, func(g Finding) bool { return g.Key() == f.Key() })
			missed := slices.Contains(checks, f.Check)
			if there == missed || x.Saw(f) == missed {
				t.Errorf("without %s: %s is there: %v, and seen: %v", part, f.Key(), there, x.Saw(f))
			}
		}
		if part == "queues" && (x.Saw(Finding{Check: "lag", Queue: "nobodys"}) || !x.Saw(Finding{Check: "lag", Queue: "orders"})) {
			t.Error("an examination that lists no queues has seen a queue of which nobody tells, or not one with poison")
		}
	}
}

// A check that is left out finds nothing, and has seen nothing.
func TestLawAnExaminationLeavesOut(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "schedules", "a")
	put(t, s, "gates", "a")
	x := Look(t.Context(), deskOf(t, s), time.Minute, "schedules", "gates")
	if err := x.Err(); err != nil {
		t.Error(err)
	}
	if x.Saw(Finding{Check: "schedules"}) || !x.Saw(Finding{Check: "gates"}) { // counters need the same requests
		t.Error("it has seen schedules, or not gates")
	}
	for _, f := range x.Findings {
		if strings.Contains(f.Check, "schedules") {
			t.Errorf("got %+v", f)
		}
	}
}
