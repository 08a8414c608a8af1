package settings

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
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

// A roll is how far the roll-out of a candidate has come. The candidate of a document without one is being checked.
type roll struct {
	Stage  int           `json:"stage"`            // which of the candidate's stages, from 0 on
	Upto   uint32        `json:"upto"`             // nodes of this rank, and of lower ones, run the candidate
	Baked  time.Duration `json:"baked"`            // in this stage, in nanoseconds: the drivers' elapsed times, added up
	Driver string        `json:"driver,omitempty"` // ID of the node that wrote this
	At     time.Time     `json:"at"`               // by the clock of the process that wrote this
	Why    string        `json:"why,omitempty"`    // why it doesn't go on; empty: it does
}

// rank orders the nodes for a version, otherwise for each.
func rank(id string, version int64) uint32 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", id, version))
	return binary.BigEndian.Uint32(sum[:])
}

// includes reports that a node shall run the candidate, once it has said yes.
func (c candidate) includes(id string) bool {
	return c.Roll != nil && rank(id, c.Version) <= c.Roll.Upto
}

// stage is the one in which the roll-out is.
func (c candidate) stage() Stage { return c.Stages[c.Roll.Stage] }

func (c candidate) check() error {
	err := checkStages(c.Stages)
	if r := c.Roll; err == nil && r != nil && (r.Stage < 0 || r.Stage >= len(c.Stages) || r.Baked < 0 || r.Baked > 2*maxBake) {
		err = fmt.Errorf("its roll-out has impossible numbers")
	}
	return err
}

// upto returns the rank up to which nodes run the candidate in a stage.
func (c candidate) upto(stage int, live []Node) uint32 {
	percent := c.Stages[stage].Percent
	if percent == 100 {
		return math.MaxUint32 // also those that are yet to come
	}
	var ranks []uint32
	for _, n := range live {
		ranks = append(ranks, rank(n.ID, c.Version))
	}
	if len(ranks) == 0 {
		return 0
	}
	slices.Sort(ranks)
	return ranks[max(1, (len(ranks)*percent+99)/100)-1]
}

// conclude returns the document in which the answers to the candidate have had their effect: it has ended, or its
// roll-out has begun.
func (d document) conclude(result Result, reasons []Refusal, live []Node, at time.Time) document {
	if result != InForce || len(d.Candidate.Stages) == 0 {
		return d.settle(result, reasons, at)
	}
	return d.rolled(roll{Upto: d.Candidate.upto(0, live), At: at})
}

// rolled returns the document with another state of the roll-out.
func (d document) rolled(r roll) document {
	c := *d.Candidate
	r.At = r.At.Round(0).UTC()
	c.Roll = &r
	d.Candidate = &c
	return d
}

// next returns the document in the next stage, or in which the candidate has come into force after the last one.
func (d document) next(live []Node, driver string, at time.Time) document {
	c := *d.Candidate
	stage := c.Roll.Stage + 1
	if stage == len(c.Stages) {
		return d.settle(InForce, nil, at)
	}
	return d.rolled(roll{Stage: stage, Upto: max(c.Roll.Upto, c.upto(stage, live)), Driver: driver, At: at})
}

// A Rollout is how far a change has come that every live node has agreed to, and that is put into force in stages.
type Rollout struct {
	Version int64         `json:"version"`
	Stages  []Stage       `json:"stages"`
	Stage   int           `json:"stage"` // which of them, from 0 on
	Baked   time.Duration `json:"baked"` // in this stage, in nanoseconds
	At      time.Time     `json:"at"`    // of the last step or bake, by the clock of the node that wrote it
	Why     string        `json:"why"`   // why it doesn't go on; empty: it does, or no node has looked yet

	candidate candidate
}

// Includes reports that a node runs the change in this stage, or will soon.
func (r Rollout) Includes(n Node) bool { return r.candidate.includes(n.ID) }

// rollout returns the roll-out that goes on, nil if none does.
func (d document) rollout() *Rollout {
	c := d.Candidate
	if c == nil || c.Roll == nil {
		return nil
	}
	return &Rollout{Version: c.Version, Stages: c.Stages, Stage: c.Roll.Stage, Baked: c.Roll.Baked, At: c.Roll.At, Why: c.Roll.Why, candidate: *c}
}
