package millracetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// ExpectStuck says which instances of processes may be stuck at the end.
func (s *Sim) ExpectStuck(expected func(plan, id string) bool) {
	s.stuck = append(s.stuck, expected)
}

// plansIn returns the documents that are instances of processes.
func plansIn(docs map[docPlace]*history, handled map[handledKey]wire.Handled) (places []docPlace) {
	for at := range docs {
		_, isPlan := handled[handledKey{at.container, channel.Kind("process." + at.container + ".start")}]
		if isPlan && !strings.Contains(at.key, "/") {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b docPlace) int { return strings.Compare(a.container+"\x00"+a.key, b.container+"\x00"+b.key) })
	return places
}

// unended returns what is wrong with the instances of processes when nothing is left to do. stuck says which of them
// may be stuck.
func unended(ctx context.Context, store *storage.Store, places []docPlace, stuck []func(plan, id string) bool) (faults []string) {
	for _, at := range places {
		look, err := process.Look(store, at.container, source)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		stream, err := look.Stream(ctx, at.key)
		switch {
		case errors.Is(err, storage.ErrNotFound): // its time is over
		case err != nil:
			faults = append(faults, err.Error())
		default:
			faults = append(faults, checkStream(stream, stuck)...)
		}
	}
	return faults
}

// checkStream returns what is wrong with an instance when nothing is left to do.
func checkStream(x *process.Stream, stuck []func(plan, id string) bool) (faults []string) {
	if x.Status == process.Stuck {
		if !slices.ContainsFunc(stuck, func(expected func(plan, id string) bool) bool { return expected(x.Plan, x.ID) }) {
			faults = append(faults, fmt.Sprintf("%s %q is stuck: %s", x.Plan, x.ID, stuckAt(x)))
		}
		return faults
	}
	for _, line := range x.Lines {
		switch {
		case line.Status != process.InProcess:
		case x.Status.Final():
			faults = append(faults, fmt.Sprintf("%s %q is %s, and its step %s %s is open", x.Plan, x.ID, x.Status, line.ID, line.Name))
		case !line.Timeout.IsZero():
			faults = append(faults, fmt.Sprintf("%s %q: its step %s %s was to end by %v, and nothing is left that would end it", x.Plan, x.ID, line.ID, line.Name, line.Timeout))
		}
	}
	return faults
}

// stuckAt says where an instance is stuck, and why.
func stuckAt(x *process.Stream) string {
	var all []string
	for _, line := range x.Lines {
		if line.Status == process.Stuck && line.Next == "" { // or those that belong to it say more
			all = append(all, line.ID+" "+line.Name+": "+line.Msg)
		}
		for _, u := range line.Undos {
			if u.Status == process.Stuck {
				all = append(all, "undo of "+line.ID+" "+line.Name+": "+u.Msg)
			}
		}
	}
	return strings.Join(all, "; ")
}
