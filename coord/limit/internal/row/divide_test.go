package row

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// numbers calls f with all lists of n numbers from 0 to most.
func numbers(n int, most int64, f func([]int64)) {
	list := make([]int64, n)
	for {
		f(list)
		i := 0
		for ; i < n && list[i] == most; i++ {
			list[i] = 0
		}
		if i == n {
			return
		}
		list[i]++
	}
}

// Law 1, over all small documents whose shares keep within the limit: the shares that a member writes keep within it,
// too. They have what the member puts in force, and what its calls under way need. A member raises its share to its
// target at most.
func TestLaw1WhatIsWrittenKeepsWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 4
	n := 0
	numbers(7, limit, func(x []int64) {
		use, underWay := x[5], x[6]
		d := document{Members: map[string]row{"me": {limit, x[0], x[2], 1, 3000}, "a": {limit, x[1], x[3], 1, 3000}, "b": {limit, limit / 2, x[4], 1, 3000}}}
		if d.given("") > limit || use > x[0] {
			return
		}
		n++
		for _, fresh := range []bool{false, true} {
			next := document{Members: maps.Clone(d.Members)}
			p := divide(next, "me", use, fresh)
			before := fmt.Sprintf("%+v with %d in force, fresh %v", d, use, fresh)
			if p.use > max(use, p.target) || p.use < min(use, p.target) {
				t.Errorf("%s: %d is to be in force; the target is %d", before, p.use, p.target)
			}
			if fresh && p.use < p.target && d.given("me")+p.use < limit {
				t.Errorf("%s: a share of %d, with a target of %d, and some is left", before, p.use, p.target)
			}
			p.hold("me", underWay, x[0])
			if got := next.Members["me"].Share; next.given("") > limit || got < p.use || got < min(underWay, x[0]) {
				t.Errorf("%s and %d calls: %+v with %d in force", before, underWay, next, p.use)
			}
		}
	})
	if n < 1000 {
		t.Errorf("only %d documents", n)
	}
}

// Law 6, over all small documents: when each member has renewed its share twice, all have their targets, whatever the
// shares and limits were.
func TestLaw6EachHasItsTargetAfterTwoRenewals(t *testing.T) {
	t.Parallel()
	numbers(7, 3, func(x []int64) {
		d := document{Members: map[string]row{}}
		for i, id := range []string{"a", "b", "c"} {
			d.Members[id] = row{2 + x[6], x[i], x[3+i], 1, 3000}
		}
		before := fmt.Sprintf("%+v", d)
		for range 2 {
			for _, id := range slices.Sorted(maps.Keys(d.Members)) {
				p := divide(d, id, d.Members[id].Share, true)
				p.hold(id, 0, 0)
			}
		}
		for id, target := range d.targets() {
			if d.Members[id].Share != target {
				t.Errorf("%s becomes %+v; the targets are %v", before, d, d.targets())
				return
			}
		}
	})
}
