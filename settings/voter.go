package settings

import (
	"slices"
	"time"
)

const (
	// unanswered is why a node that is passed over has not said yes.
	unanswered = "it has not answered"

	// unchecked is why a change is refused that no node could check.
	unchecked = "no program that has these settings runs, so none has checked the change: start one (a program has settings if it calls host.Settings), and then repeat the change, or force it unchecked (--force)"
)

// A voter is a node's answers to candidates.
type voter struct {
	last *Verdict // on the last candidate
	told int64    // the last candidate to which the node's row says yes
}

// answer returns what the node says to the candidate of a document, or that its own code must be asked. The node has
// seen an epoch, knows up to which version all have ended, and may have a fault.
func (v voter) answer(d document, epoch, ended int64, fault string) (verdict *Verdict, ask bool) {
	switch c := d.Candidate; {
	case d.Epoch < epoch:
		return &Verdict{Version: c.Version, Why: fault}, false
	case c.Version <= ended:
		return &Verdict{Version: c.Version, Why: "this version has ended before: was a backup restored?"}, false
	case v.last == nil || v.last.Version != c.Version:
		return nil, true
	}
	return v.last, false
}

// verdictOf is the answer to a version of which the program's own code has an error, or none.
func verdictOf(version int64, err error) *Verdict {
	if err != nil {
		return &Verdict{Version: version, Why: clean(err.Error(), maxReason)}
	}
	return &Verdict{Version: version, Yes: true}
}

// written notes that the node's row has the last answer.
func (v *voter) written() {
	if v.last != nil && v.last.Yes {
		v.told = v.last.Version
	}
}

// agreed reports that the node says yes to a version, and that its row says so.
func (v voter) agreed(version int64) bool {
	return v.last != nil && v.last.Version == version && v.last.Yes && v.told == version
}

// tally returns the document in which the answers of the live nodes to the candidate have had their effect. It is not
// settled while some have yet to answer, unless those are passed over.
func tally(d document, live []Node, passOver bool, now time.Time) (next document, settled bool) {
	result, reasons, settled := judgement(*d.Candidate, live)
	if !settled && !passOver {
		return d, false
	}
	return d.conclude(result, reasons, live, now), true
}

// judgement is what the answers of the live nodes make of a candidate. It is not settled while some have yet to answer.
func judgement(c candidate, live []Node) (result Result, reasons []Refusal, settled bool) {
	missing := 0
	for _, n := range live {
		switch v, answered := n.says(c.Version); {
		case !answered:
			missing++
			reasons = append(reasons, Refusal{clean(n.Name, maxBy), unanswered})
		case !v.Yes:
			reasons = append(reasons, Refusal{clean(n.Name, maxBy), clean(v.Why, maxReason)})
		}
	}
	switch {
	case c.Force:
		return Forced, reasons, missing == 0
	case len(live) == 0:
		return Refused, []Refusal{{Why: unchecked}}, true
	case len(reasons) > missing: // one no is enough
		return Refused, slices.DeleteFunc(reasons, func(r Refusal) bool { return r.Why == unanswered }), true
	case missing > 0:
		return "", reasons, false
	}
	return InForce, nil, true
}
