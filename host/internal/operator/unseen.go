package operator

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// mostUnseen bounds how many queues of the store are looked at that nobody has published: each costs requests.
const mostUnseen = 200

// laneSuffix is what a lane has after the name of its queue.
var laneSuffix = regexp.MustCompile(`(-high|-low)?-lane-[0-9]+$`)

// withUnseen returns the numbers of known queues, and adds the queues with messages of which no program and no poison
// queue tells: a web was started before its worker, or by a version that no worker has any more. fault says why the
// store doesn't list its queues, as where the operator has no right to; then none are added.
func (c *call) withUnseen(ctx context.Context, names []string) (_ []string, stats []storage.Stats, fault, err error) {
	if stats, err = c.statsOf(ctx, names); err != nil {
		return nil, nil, nil, err
	}
	unseen, fault := c.unseen(ctx, names)
	switch {
	case ctx.Err() != nil:
		return nil, nil, nil, context.Cause(ctx)
	case fault != nil:
		return names, stats, fault, nil
	}
	more, err := c.statsOf(ctx, unseen)
	if err != nil {
		return nil, nil, nil, err
	}
	all := map[string]storage.Stats{}
	for i, st := range stats {
		all[names[i]] = st
	}
	for i, st := range more {
		if st.Ready != 0 || st.InFlight != 0 || st.Delayed != 0 {
			all[unseen[i]] = st
		}
	}
	names, stats = slices.Sorted(maps.Keys(all)), nil
	for _, name := range names {
		stats = append(stats, all[name])
	}
	return names, stats, nil, nil
}

// unseen lists the queues of the store that are none of names, and no lanes. Lanes are counted with their queue.
func (c *call) unseen(ctx context.Context, names []string) ([]string, error) {
	every := lanes.Queue{Lanes: lanes.Most, Priorities: true}
	divided, lane, found := map[string]lanes.Queue{}, map[string]bool{}, map[string]bool{}
	for _, name := range names {
		for _, l := range every.Names(name) {
			lane[l] = true
		}
	}
	for name, err := range c.store.Queues(ctx) {
		if err != nil {
			return nil, err
		}
		if lane[name] {
			continue
		}
		if at := laneSuffix.FindStringIndex(name); at != nil && every.Check(name[:at[0]]) == nil {
			name = name[:at[0]]
			divided[name] = every
		}
		if found[name] = true; len(found) == mostUnseen {
			break
		}
	}
	for queue := range divided {
		for _, l := range every.Names(queue) {
			delete(found, l)
		}
		found[queue] = true
	}
	var err error
	c.store, err = wire.WithLanes(c.store, divided)
	return slices.Sorted(maps.Keys(found)), err
}
