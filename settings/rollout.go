package settings

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
)

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

// pace is how long a node waits between two looks during a roll-out.
func (c candidate) pace(poll time.Duration) time.Duration {
	return min(poll, max(soon, c.stage().Bake/4))
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

// rolling stands for the ending of a candidate whose roll-out has begun.
func (d document) rolling() Ending {
	return Ending{Version: d.Candidate.Version, Result: Rolling, Epoch: d.Epoch, At: d.Candidate.Roll.At}
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
