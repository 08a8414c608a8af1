package settings

import (
	"cmp"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	maxStages  = 10
	minBake    = time.Second
	maxBake    = 7 * 24 * time.Hour
	leastCalls = 100 // by default
)

// A Stage is one step of a roll-out.
type Stage struct {
	// Percent is the share of the nodes that run the change, 1 to 100, and at least one node.
	Percent int `json:"percent"`

	// Bake is how long they must run it, and be well, before the next stage begins. It is 1 second to 7 days, in whole
	// milliseconds.
	Bake time.Duration `json:"bake"` // in nanoseconds

	// Calls is how many calls they must have counted by then, together, where they have a [Config.Work]. While there are
	// fewer, the stage goes on. Defaults to 100.
	Calls int64 `json:"calls,omitempty"`
}

// InStages returns stages with these shares of the nodes, in percent, and the same bake for each. The last share is
// 100.
func InStages(bake time.Duration, percents ...int) []Stage {
	var all []Stage
	for _, p := range percents {
		all = append(all, Stage{Percent: p, Bake: bake})
	}
	return all
}

func (s Stage) calls() int64 { return cmp.Or(s.Calls, leastCalls) }

// checkStages returns all that is wrong with stages. None are right.
func checkStages(all []Stage) error {
	if len(all) == 0 {
		return nil
	}
	before := 0
	for _, s := range all {
		if s.Percent <= before || s.Percent > 100 || s.Bake < minBake || s.Bake > maxBake || s.Bake%time.Millisecond != 0 || s.Calls < 0 || s.Calls > maxWork {
			return fmt.Errorf("%w: stage of %d percent, with a bake of %v and %d calls; want shares that grow, 1 to 100 percent, bakes of %v to %v in whole milliseconds, and 0 to %d calls",
				storage.ErrInvalid, s.Percent, s.Bake, s.Calls, minBake, maxBake, int64(maxWork))
		}
		before = s.Percent
	}
	if before != 100 || len(all) > maxStages {
		return fmt.Errorf("%w: %d stages, the last of %d percent; want at most %d, and 100 percent in the last one", storage.ErrInvalid, len(all), before, maxStages)
	}
	return nil
}

// stagesOf returns the stages that live nodes want for a change: those that take longest.
func stagesOf(live []Node) (most []Stage) {
	total := func(all []Stage) (sum time.Duration) {
		for _, s := range all {
			sum += s.Bake
		}
		return sum
	}
	for _, n := range live {
		if total(n.Stages) > total(most) {
			most = n.Stages
		}
	}
	return most
}
