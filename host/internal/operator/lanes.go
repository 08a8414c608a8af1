package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage/lanes"
)

// lanes returns how queues are divided. Where programs differ, it is by the most lanes, so that all are counted.
func (k *knowledge) lanes() map[string]lanes.Queue {
	all := map[string]lanes.Queue{}
	for _, d := range k.all() {
		queues := slices.Clone(d.Queues)
		for _, x := range d.Left {
			queues = append(queues, catalog.Queue{Name: x.Name, Lanes: x.Lanes, Priorities: x.Priorities})
		}
		for _, q := range queues {
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

// laneFindings are about messages in lanes that the program of today doesn't look into. A program may have been
// replaced by one of the same version, so all lanes that a queue can have are looked at.
func (c examination) laneFindings(ctx context.Context) (all []finding, err error) {
	for _, queue := range slices.Sorted(maps.Keys(c.known.queues)) {
		now, ok := c.known.dividedNow(queue)
		if !ok {
			continue
		}
		seen := []string{queue}
		if now != (lanes.Queue{}) {
			seen = now.Names(queue)
		}
		left := slices.DeleteFunc(lanes.Queue{Lanes: lanes.Most, Priorities: true}.Names(queue), func(name string) bool { return slices.Contains(seen, name) || c.known.queues[name] })
		stats, err := c.statsOf(ctx, left)
		if err != nil {
			return nil, err
		}
		n, fixes := int64(0), map[string]bool{}
		for i, st := range stats {
			here := max(0, st.Ready) + max(0, st.Delayed)
			if n += here; here == 0 {
				continue
			}
			lane := strings.TrimPrefix(left[i], queue)
			if strings.HasPrefix(lane, "-high") || strings.HasPrefix(lane, "-low") {
				fixes[fmt.Sprintf("channel.Priorities(%q)", queue)] = true
			} else {
				fixes[fmt.Sprintf("channel.Lanes(%q, 1)", queue)] = true
			}
		}
		if n == 0 {
			continue
		}
		all = append(all, finding{Severity: wrong, Check: "lanes", Queue: queue,
			Text: fmt.Sprintf("%s in lanes that queue %s no longer has", waiting(n), queue),
			Fix:  fmt.Sprintf("Start a worker with %s among its routes, until this is gone.", strings.Join(slices.Sorted(maps.Keys(fixes)), " and "))})
	}
	return all, nil
}
