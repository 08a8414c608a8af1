package settings

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The kinds of a proposal that didn't come into force.
var (
	ErrRefused   = errors.New("refused")                          // a live node said no
	ErrDropped   = errors.New("dropped for another change")       // see [Dropped]
	ErrUnchanged = errors.New("this is what is in force already") // nothing was proposed
	ErrNever     = errors.New("this version never was in force")  // so nobody can go back to it

	ErrRolledBack = errors.New("rolled back")                        // see [RolledBack]
	ErrRolling    = errors.New("another change is being rolled out") // nothing was proposed
)

// A Result is how a proposal ended.
type Result string

// The results of a proposal.
const (
	InForce Result = "in force" // every live node said yes
	Forced  Result = "forced"   // it came into force without the yes of those that the ending names
	Refused Result = "refused"  // some said no
	Dropped Result = "dropped"  // somebody went back, or forced another change, before all had answered

	RolledBack Result = "rolled back" // it was rolled out, and a node was ill with it, or somebody went back
	Rolling    Result = "rolling out" // every live node said yes, and its stages have begun: this is no end yet
)

// An Ending is what has become of a version.
type Ending struct {
	Version int64     `json:"version"`
	Result  Result    `json:"result"`
	Epoch   int64     `json:"epoch"`
	At      time.Time `json:"at"`                // by the clock of the process that wrote it
	Reasons []Refusal `json:"reasons,omitempty"` // of those that said no, were ill or were passed over, or of the one who went back
}

// A Refusal is why a node didn't say yes.
type Refusal struct {
	Node string `json:"node"` // empty: no node runs
	Why  string `json:"why"`
}

// String is the refusal in words.
func (r Refusal) String() string {
	if r.Node == "" {
		return r.Why
	}
	return r.Node + ": " + cmp.Or(r.Why, "no reason given")
}

// came reports that a version came into force.
func (e Ending) came() bool { return e.Result == InForce || e.Result == Forced }

// Err is the error of a version that didn't come into force, with the reasons. It matches [ErrRefused], [ErrRolledBack]
// or [ErrDropped]; nil is for other endings.
func (e Ending) Err() error {
	var all []string
	for _, r := range e.Reasons {
		all = append(all, r.String())
	}
	switch e.Result {
	case Refused:
		by := " by "
		if len(e.Reasons) > 0 && e.Reasons[0].Node == "" {
			by = ": "
		}
		if e.Version == 0 {
			return fmt.Errorf("%w%s%s", ErrRefused, by, strings.Join(all, "; "))
		}
		return fmt.Errorf("version %d: %w%s%s", e.Version, ErrRefused, by, strings.Join(all, "; "))
	case RolledBack:
		return fmt.Errorf("version %d: %w: %s", e.Version, ErrRolledBack, strings.Join(all, "; "))
	case Dropped:
		return fmt.Errorf("version %d: %w", e.Version, ErrDropped)
	}
	return nil
}
