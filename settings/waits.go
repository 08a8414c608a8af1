package settings

import (
	"fmt"
	"strings"
	"time"
)

// A Wait is a node whose answer to a change is waited for.
type Wait struct {
	Node  string    // its name
	Until time.Time // it is passed over then, as dead or because the change is forced, unless its row changes

	Version int64 // of the change
	Other   bool  // it is another change than the proposed one, which waits for it
}

// String tells people who is waited for, and until when.
func (w Wait) String() string {
	if !time.Now().Before(w.Until) {
		return fmt.Sprintf("%s, which should have looked again by %s, and is passed over three polls after others have seen its last look", w.Node, w.Until.UTC().Format("15:04:05Z"))
	}
	return fmt.Sprintf("%s until %s (in %v)", w.Node, w.Until.UTC().Format("15:04:05Z"), time.Until(w.Until).Round(time.Second))
}

// WaitsFor tells which nodes a version that is being checked waits for. Until is three polls after the node's last
// look, by its own clock. Others count from when they have seen that, so it may be up to a poll later.
func (c Current) WaitsFor(nodes []Node) (all []Wait) {
	if c.Candidate == 0 || c.Rollout != nil {
		return nil
	}
	for _, n := range nodes {
		if _, answered := n.says(c.Candidate); !answered {
			all = append(all, Wait{Node: clean(n.Name, maxBy), Until: n.At.Add(n.silence()), Version: c.Candidate})
		}
	}
	return all
}

// waits tells which live nodes have yet to answer a candidate, by the last look at their rows.
func (all rows) waits(c candidate) (waits []Wait) {
	for _, s := range all {
		if _, answered := s.Row.says(c.Version); !answered && s.Alive {
			waits = append(waits, Wait{Node: clean(s.Row.Name, maxBy), Until: s.Dies, Version: c.Version})
		}
	}
	return waits
}

// waitsText tells people who is waited for, after a sentence.
func waitsText(all []Wait) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, w := range all[:min(len(all), maxRefusals)] {
		parts = append(parts, w.String())
	}
	return " and waits for " + strings.Join(parts, ", ")
}
