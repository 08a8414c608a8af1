package millracetest

import (
	"errors"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// ExpectStuck says which instances of processes may be stuck at the end.
func (s *Sim) ExpectStuck(expected func(plan, id string) bool) {
	s.stuck = append(s.stuck, expected)
}

// checkProcesses checks where the instances of processes stand when nothing is left to do.
func checkProcesses(s *Sim) {
	var places []docPlace
	for at := range s.recorder.docs {
		_, isPlan := s.handled[handledKey{at.container, channel.Kind("process." + at.container + ".start")}]
		if isPlan && !strings.Contains(at.key, "/") {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b docPlace) int { return strings.Compare(a.container+"\x00"+a.key, b.container+"\x00"+b.key) })
	for _, at := range places {
		look, err := process.Look(s.world.Store, at.container, source)
		if err != nil {
			s.fault(ProcessesEnd, "%v", err)
			continue
		}
		stream, err := look.Stream(s.t.Context(), at.key)
		switch {
		case errors.Is(err, storage.ErrNotFound): // its time is over
		case err != nil:
			s.fault(ProcessesEnd, "%v", err)
		default:
			checkStream(s, stream)
		}
	}
}

// checkStream checks an instance when nothing is left to do.
func checkStream(s *Sim, x *process.Stream) {
	if x.Status == process.Stuck {
		if !slices.ContainsFunc(s.stuck, func(expected func(plan, id string) bool) bool { return expected(x.Plan, x.ID) }) {
			s.fault(ProcessesEnd, "%s %q is stuck: %s", x.Plan, x.ID, stuckAt(x))
		}
		return
	}
	for _, line := range x.Lines {
		switch {
		case line.Status != process.InProcess:
		case x.Status.Final():
			s.fault(ProcessesEnd, "%s %q is %s, and its step %s %s is open", x.Plan, x.ID, x.Status, line.ID, line.Name)
		case !line.Timeout.IsZero():
			s.fault(ProcessesEnd, "%s %q: its step %s %s was to end by %v, and nothing is left that would end it", x.Plan, x.ID, line.ID, line.Name, line.Timeout)
		}
	}
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
