package process

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/values"
)

// host advances a plan's instances by their messages.
type host struct {
	*definition
	registry  *handling.Registry
	instances *values.Collection[flow.Instance]
	goingBack *lru.Cache[struct{}] // instances that go back, as far as this worker has seen
	keeper    *keeper
}

// fold advances an instance by a message.
func (h *host) fold(id string, v flow.Instance, e *channel.Envelope, m any) (flow.Instance, []channel.Message, error) {
	number, part := v.Version, v.Part
	if start, ok := m.(flow.Start); ok && number == 0 {
		number, part = start.Version, start.Part
	}
	if number == 0 {
		number = h.newest
	}
	whole := h.versions[number]
	if u, ok := h.upgrades[number]; ok && v.Parent == nil && v.Version == number && !v.Status.Final() {
		if next, ok := u.apply(v, h.versions[u.to]); ok {
			v, whole = next, h.versions[u.to]
		}
	}
	ended := needsNoSteps(v, m)
	if ended { // its version may be gone, as no instance goes on by it
		whole = h.versions[h.newest]
	} else if whole == nil {
		return v, nil, handlers.Later(unknownVersion, fmt.Sprintf("no version %d of the plan %s is registered here", number, h.name))
	}
	if v.Print != "" && v.Print != whole.Print && !ended {
		return v, nil, handlers.Later(unknownVersion, fmt.Sprintf("version %d of the plan %s is another one here", number, h.name))
	}
	plan := whole.Find(part)
	if plan == nil {
		return v, nil, handlers.Poison("no such part", fmt.Errorf("process: plan %s, version %d, has no part %s", h.name, number, part))
	}
	now := h.registry.Channels.Outbox().Now().UTC() // a message may have waited for long, and what begins now has all its time
	for _, t := range []time.Time{e.Time, e.Due} {
		if t.After(now) { // by the clock of another machine
			now = t
		}
	}
	before := v.Status
	out, changed, err := plan.Advance(id, &v, m, now)
	switch {
	case errors.Is(err, flow.ErrOtherInput):
		return v, nil, handlers.Poison("started with another input", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrTooLarge):
		return v, nil, handlers.Poison("document too large", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrEarly):
		return v, nil, handlers.Poison("too many early signals", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrPurged):
		return v, nil, handlers.Poison("success of a purged instance", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case err != nil:
		return v, nil, fmt.Errorf("process: %s %s: %w", h.name, id, err)
	case !changed:
		return v, nil, values.ErrUnchanged
	}
	switch {
	case v.Status == before:
	case v.Status == InProcess:
		h.goingBack.Take(id)
	case v.Status != Completed && v.Status != Stuck:
		h.goingBack.Add(id, struct{}{}, len(id))
	}
	out, err = h.keeper.beside(id, before, v, out)
	return v, out, err
}

// needsNoSteps reports that an instance takes a message by its document alone, whatever its plan is: it has ended, and
// the message can't undo anything.
func needsNoSteps(v flow.Instance, m any) bool {
	ended := v.Status.Final()
	switch m := m.(type) {
	case flow.Start:
		return ended
	case flow.Alarm:
		return ended || m.Purge
	case flow.Signal:
		return ended
	case flow.Act:
		return ended && (m.Do == flow.ActCancel || m.Do == flow.ActNudge)
	case flow.Done:
		return ended && v.Knows(flow.Begin{Path: m.Path, Run: m.Run, Item: m.Item, Undo: m.Undo})
	}
	return false
}

// unknownVersion is how long a message waits before another worker may know its instance's version.
const unknownVersion = 10 * time.Second
