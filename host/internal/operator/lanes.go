package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/catalog"
	"github.com/millrace-go/millrace/storage/lanes"
)

// lanes returns how queues are divided. Where programs differ, it is by the most lanes, so that all are counted.
func (k *knowledge) lanes() map[string]lanes.Queue {
	all := map[string]lanes.Queue{}
	for _, d := range k.all() {
		for _, q := range d.Queues {
			x := lanes.Queue{Lanes: max(all[q.Name].Lanes, min(q.Lanes, lanes.Most)), Priorities: all[q.Name].Priorities || q.Priorities}
			if x != (lanes.Queue{}) && x.Check(q.Name) == nil {
				all[q.Name] = x
			}
		}
	}
	return all
}

// dividedNow returns how the last program that consumes a queue divides it. ok is false if no program has consumed it.
func (k *knowledge) dividedNow(queue string) (x lanes.Queue, ok bool) {
	for i := range slices.Backward(k.published) {
		d := &k.published[i]
		j := slices.IndexFunc(d.Queues, func(q catalog.Queue) bool { return q.Name == queue })
		if j >= 0 && d.Consumes(queue) {
			return lanes.Queue{Lanes: d.Queues[j].Lanes, Priorities: d.Queues[j].Priorities}, true
		}
	}
	return lanes.Queue{}, false
}

// laneFindings are about messages in lanes that the program of today doesn't look into.
func (c examination) laneFindings(ctx context.Context) (all []finding, err error) {
	divided := c.known.lanes()
	for _, queue := range slices.Sorted(maps.Keys(divided)) {
		now, ok := c.known.dividedNow(queue)
		if !ok || now == divided[queue] {
			continue
		}
		seen := []string{queue}
		if now != (lanes.Queue{}) {
			seen = now.Names(queue)
		}
		left := slices.DeleteFunc(divided[queue].Names(queue), func(name string) bool { return slices.Contains(seen, name) })
		stats, err := c.statsOf(ctx, left)
		if err != nil {
			return nil, err
		}
		n := int64(0)
		for _, st := range stats {
			n += max(0, st.Ready) + max(0, st.Delayed)
		}
		if n == 0 {
			continue
		}
		fix := "channel.Lanes"
		if divided[queue].Priorities && !now.Priorities {
			fix = "channel.Priorities"
		}
		all = append(all, finding{Severity: wrong, Check: "lanes", Queue: queue,
			Text: fmt.Sprintf("%s in lanes that queue %s no longer has", waiting(n), queue),
			Fix:  fmt.Sprintf("Start a worker with %s for it among its routes, until this is gone. One lane is enough.", fix)})
	}
	return all, nil
}
