package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// Canaries are compared with the others and with themselves, and judged by numbers that can prove something.
func TestCompare(t *testing.T) {
	t.Parallel()
	none := Work{}
	for _, c := range []struct {
		what                     string
		canaries, others, before Work
		ill                      bool
	}{
		{"nothing", none, none, none, false},
		{"all well", Work{1000, 0}, Work{9000, 0}, Work{5000, 0}, false},
		{"as bad as the others", Work{900, 100}, Work{9000, 1000}, none, false},
		{"worse than the others", Work{900, 100}, Work{9900, 100}, none, true},
		{"a little worse, by chance", Work{980, 20}, Work{9900, 100}, none, false},
		{"a little worse, and certain of it", Work{989_000, 11_000}, Work{9_900_000, 100_000}, none, false},
		{"four failures", Work{0, 4}, Work{100_000, 0}, none, false},
		{"five failures", Work{0, 5}, Work{100_000, 0}, none, true},
		{"too few others, worse than before", Work{900, 100}, Work{99, 0}, Work{1000, 0}, true},
		{"better than the others, worse than before", Work{900, 100}, Work{500, 500}, Work{1000, 0}, true},
		{"better than both", Work{1000, 0}, Work{500, 500}, Work{500, 500}, false},
		{"nothing to compare with, half failed", Work{500, 500}, none, none, false},
		{"nothing to compare with, more failed", Work{499, 501}, Work{9, 0}, Work{9, 0}, true},
		{"nothing to compare with, and few calls", Work{0, 99}, none, none, false},
	} {
		if why := compare(c.canaries, c.others, c.before, leastCalls); (why != "") != c.ill {
			t.Errorf("%s: got %q, want ill %v", c.what, why, c.ill)
		}
	}
	if got := (Work{5, 5}).since(Work{7, 1}); got != (Work{0, 4}) {
		t.Errorf("got %+v", got)
	}
}

// A stage has its share of the nodes, rounded up, and at least one. Later stages have those of earlier ones, and the
// last one has all, also those that are yet to come. Other versions have other canaries.
func TestRanks(t *testing.T) {
	t.Parallel()
	var live []Node
	for i := range 40 {
		live = append(live, Node{ID: fmt.Sprint("node ", i)})
	}
	first := map[string]bool{}
	for version := range int64(20) {
		c := candidate{Version: version + 1, Stages: InStages(time.Minute, 1, 10, 51, 100)}
		before, upto := 0, uint32(0)
		for stage, want := range []int{1, 4, 21, 40} {
			upto = max(upto, c.upto(stage, live))
			c.Roll = &roll{Stage: stage, Upto: upto}
			got := 0
			for _, n := range live {
				if c.includes(n.ID) {
					if got++; stage == 0 {
						first[n.ID] = true
					}
				}
			}
			if got != want || got < before {
				t.Errorf("version %d, stage %d: got %d nodes, want %d", c.Version, stage, got, want)
			}
			before = got
		}
		if upto != math.MaxUint32 {
			t.Errorf("the last stage ends at %d", upto)
		}
	}
	if len(first) < 10 {
		t.Errorf("20 versions began with %d nodes", len(first))
	}
}

// Where live nodes want other stages, those count that take longest.
func TestStagesOf(t *testing.T) {
	t.Parallel()
	short, long := InStages(time.Minute, 50, 100), InStages(time.Hour, 100)
	if got := stagesOf([]Node{{Stages: short}, {}, {Stages: long}, {Stages: short}}); !slices.Equal(got, long) {
		t.Errorf("got %+v", got)
	}
	if got := stagesOf([]Node{{}}); got != nil {
		t.Errorf("got %+v", got)
	}
}

// Numbers of a roll-out that can't be are refused.
func TestARollOutWithImpossibleNumbers(t *testing.T) {
	t.Parallel()
	good := document{Epoch: 3, Last: 2, Values: json.RawMessage(`{}`), Candidate: &candidate{
		Version: 2, Values: json.RawMessage(`{}`), By: "ada", Stages: InStages(time.Minute, 10, 100), Roll: &roll{Stage: 1, Upto: 7, Baked: time.Second},
	}}
	if _, err := parseDocument(written(t, good)); err != nil {
		t.Error(err)
	}
	for what, r := range map[string]roll{"a stage beyond": {Stage: 2}, "a negative stage": {Stage: -1}, "a negative bake": {Baked: -1}, "a bake of months": {Baked: math.MaxInt64}} {
		if d, err := parseDocument(written(t, good.rolled(r))); err == nil {
			t.Errorf("%s: got %+v", what, d)
		}
	}
	for what, n := range map[string]Node{
		"work below 0":    {Health: &Health{Since: &Work{Done: -1}}},
		"work above all":  {Health: &Health{Before: &Work{Failed: maxWork + 1}}},
		"half a roll-out": {Stages: InStages(time.Minute, 50)},
	} {
		if n.ID, n.Poll = "x", 30_000; what != "" {
			if _, err := parseNode("x", written(t, n)); err == nil {
				t.Errorf("%s: accepted", what)
			}
		}
	}
}

// No time is counted twice: what another driver has written is counted, and this node begins anew.
func TestNoTimeIsCountedTwice(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	var k clock
	k.see(5, at(0))
	k.see(5, at(30)) // the same document
	if k.counted != at(0) || k.seen != at(0) {
		t.Errorf("got %+v", k)
	}
	k.see(6, at(60)) // somebody else has written, perhaps just now
	if k.counted != at(60) || k.seen != at(60) {
		t.Errorf("got %+v", k)
	}
}
