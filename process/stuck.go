package process

import (
	"cmp"
	"context"
	"strings"

	"github.com/millrace-go/millrace/process/internal/flow"
)

// showStuck shows in an instance's row which step is stuck: the first one, in the part that has it.
func (k *keeper) showStuck(ctx context.Context, x *Entry, d flow.Instance) error {
	id := x.ID
	for {
		ev, part := stuckIn(d)
		if ev == nil {
			return nil
		}
		if part < 0 {
			x.Step, x.Name, x.Error, x.Since = flow.PathRun(ev.ID, ev.Run), ev.Name, ev.Msg, ev.Created
			if ev.Began.After(ev.Created) {
				x.Since = ev.Began
			}
			x.Unknown = ev.Doubted()
			x.fill(ev)
			if inner := strings.TrimPrefix(id, x.ID+"/"); inner != id {
				x.Step = inner + "/" + x.Step
				if d.Page != nil { // it has the one step
					x.Step = inner
				}
			}
			return nil
		}
		id = flow.ChildID(id, ev.ID, ev.Run, part)
		s, err := k.instances.Get(ctx, id, "")
		if err != nil {
			return err
		}
		d = s.Value
	}
}

// stuckIn returns the first step of a document that is stuck, and the index of its part that is, or -1.
func stuckIn(d flow.Instance) (ev *flow.Event, part int) {
	for _, ev := range d.Events {
		if !ev.Stuck() {
			continue
		}
		for _, p := range ev.StuckParts {
			if p.Msg != "" {
				return ev, p.Index
			}
		}
		return ev, -1
	}
	return nil, -1
}

// fill shows the error of a step that is stuck, or of its undo.
func (x *Entry) fill(ev *flow.Event) {
	failures := ev.Failures
	undo := ""
	for _, u := range ev.Undos {
		if u.Status == Stuck {
			failures, undo, x.Since = u.Failures, "undo: ", u.Created
			if x.Error = ""; len(failures) == 0 {
				x.Error = "no answer in time"
			}
			break
		}
	}
	if n := len(failures); n > 0 {
		x.Error, x.Since = cmp.Or(x.Error, failures[n-1].Msg), failures[n-1].At
	}
	x.Error = undo + x.Error
}
