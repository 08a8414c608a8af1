package settings

import (
	"slices"
	"testing"
)

// Whatever a node runs and the document says, the node then runs the candidate in its stage, or the version in force.
// A node that can't run the version in force may keep what it has, and never what was rolled back.
func TestChoicesOfANode(t *testing.T) {
	t.Parallel()
	const id = "a"
	in, out := &roll{Upto: rank(id, 7)}, &roll{Upto: rank(id, 7) - 1}
	candidates := []*candidate{nil, {Version: 7}, {Version: 7, Roll: in}, {Version: 7, Roll: out}}
	endings := []Result{"", InForce, Forced, Refused, Dropped, RolledBack}
	for _, c := range candidates {
		for _, stable := range []int64{0, 3, 7} {
			for _, r := range []running{{version: 0, before: none}, {version: 3, before: none}, {version: 7, before: none}, {version: 7, before: 3}, {version: 7, before: 0}} {
				d := document{Stable: stable, Candidate: c}
				got := choose(d, id, r)
				staged := c != nil && c.Roll == in && r.version == 7
				runs := map[choice]int64{keepsCandidate: 7, keepsStable: r.version, goesBack: r.before, takesStable: stable}[got]
				if (got == keepsCandidate) != staged || !staged && runs != stable {
					t.Errorf("%+v in force, candidate %+v, running %+v: got choice %d", stable, c, r, got)
				}
				for _, result := range endings {
					d.Ended = slices.DeleteFunc([]Ending{{Version: 7, Result: result}}, func(e Ending) bool { return e.Result == "" })
					came := result == InForce || result == Forced
					if got := leaves(d, r); got != (r.before != none && (!came || r.version != 7)) {
						t.Errorf("running %+v, which is %q: goes back %v", r, result, got)
					}
				}
			}
		}
	}
}
