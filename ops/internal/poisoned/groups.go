package poisoned

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
)

// A Group are the entries of a queue that most likely have one cause.
type Group struct {
	Queue, Reason string
	Kind          channel.Kind
	Print         string // of their errors
	Error         string // of the latest of them, as the call may see it
	Messages      int
	Latest        time.Time
}

// Groups groups the entries that are selected, the largest group first. It looks at the latest ones, as many as Limit
// says.
func (in *Selection) Groups(ctx context.Context, c *act.Call) (all []Group, err error) {
	if err := in.checkContent(c); err != nil {
		return nil, err
	}
	type key struct {
		queue, reason, print string
		kind                 channel.Kind
	}
	groups, taken := map[key]*Group{}, 0
	err = in.latest(ctx, c, func() int { return taken }, func(m poison.Entry) {
		if !in.Fits(m) || !in.has(c.Known, m) {
			return
		}
		taken++
		k := key{m.Queue, m.Reason, Fingerprint(m.Error), m.Kind}
		g := groups[k]
		if g == nil {
			g = &Group{Queue: m.Queue, Reason: m.Reason, Kind: m.Kind, Print: k.print, Latest: m.Last, Error: c.Fault(m.Error, m.Queue, string(m.Kind))}
			groups[k] = g
		}
		if g.Messages++; m.Last.After(g.Latest) {
			g.Latest, g.Error = m.Last, c.Fault(m.Error, m.Queue, string(m.Kind))
		}
	})
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(b.Messages-a.Messages, cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Print, b.Print))
	})
	return all, err
}
