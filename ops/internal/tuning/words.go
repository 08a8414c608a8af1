package tuning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
)

// CandidateState is what goes on with a candidate, and how far its roll-out has come.
func CandidateState(r *settings.Rollout) string {
	if r == nil {
		return "being checked"
	}
	st := r.Stages[r.Stage]
	text := fmt.Sprintf("being rolled out: stage %d of %d, %d%% of the programs, baked %s of %s", r.Stage+1, len(r.Stages), st.Percent, act.Age(r.Baked), act.Age(st.Bake))
	if r.Why != "" {
		text += "; it waits: " + r.Why
	}
	return text
}

// WaitsFor tells people which programs have yet to answer.
func WaitsFor(waits []settings.Wait) string {
	var all []string
	then := ""
	for _, w := range waits {
		if all = append(all, w.String()); time.Now().Before(w.Until) { // else the text of that one says so
			then = " One that has not looked again by then is passed over."
		}
	}
	return "It waits for the answer of " + strings.Join(all, ", ") + "." + then
}

// PassedOver tells whose answer a forced change didn't wait for.
func PassedOver(e settings.Ending) string {
	passed := map[string]bool{}
	for _, r := range e.Reasons {
		passed[fmt.Sprintf("%s (%s)", r.Node, r.Why)] = true
	}
	if len(passed) == 0 {
		return " No program has said no; where none runs, none has checked it."
	}
	return " Passed over: " + strings.Join(slices.Sorted(maps.Keys(passed)), ", ") + "."
}

// NoResult tells why a version has no result.
func NoResult(version int64, now settings.Current) string {
	switch {
	case now.Epoch == 0:
		return "unknown" // the document can't be read, which a note has said
	case version == now.Candidate && now.Rollout != nil:
		return string(settings.Rolling)
	case version == now.Candidate:
		return "checking"
	case len(now.Ended) > 0 && version < now.Ended[len(now.Ended)-1].Version:
		return "no longer kept"
	}
	return "not proposed"
}

// FirstReason is the first of the reasons for a result, and how many others there are.
func FirstReason(all []settings.Refusal) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return act.Short(all[0].String())
	}
	return fmt.Sprintf("%s (and %d more)", act.Short(all[0].String()), len(all)-1)
}

// Changes tells people what a version has changed.
func Changes(v settings.Version) string {
	var parts []string
	if v.BackTo != nil {
		parts = append(parts, fmt.Sprintf("back to %d", *v.BackTo))
	}
	for _, x := range v.Changes {
		parts = append(parts, fmt.Sprintf("%s %s→%s", x.Path, OrDefault(x.From), OrDefault(x.To)))
	}
	return strings.Join(parts, ", ")
}

// OrDefault is a cell with a value that may not be set.
func OrDefault(value json.RawMessage) string {
	if value == nil {
		return "default"
	}
	return string(value)
}

// Blamed names of the programs that have kept a change from coming into force.
func Blamed(e settings.Ending) string {
	var all []string
	for _, r := range e.Reasons {
		if r.Node != "" && !slices.Contains(all, r.Node) {
			all = append(all, r.Node)
		}
	}
	return strings.Join(all, ", ")
}

// Reasons tells why a change has ended as it did.
func Reasons(e settings.Ending) string {
	var all []string
	for _, r := range e.Reasons {
		all = append(all, r.String())
	}
	return strings.Join(all, "; ")
}
