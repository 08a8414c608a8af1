package look

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// atOnce is how many queues are counted together.
const atOnce = 16

// mostUnseen bounds how many queues of the store are looked at that nobody has published: each costs requests.
const mostUnseen = 200

// laneSuffix is what a lane has after the name of its queue.
var laneSuffix = regexp.MustCompile(`(-high|-low)?-lane-[0-9]+$`)

// Queues returns the sorted names of the queues that are routed or have a poison queue, and the number of poison
// messages of each.
func Queues(ctx context.Context, d *act.Desk) (names []string, poisoned map[string]int64, err error) {
	names, poisoned, _, err = QueuesAndLatest(ctx, d, 0, 0)
	return names, poisoned, err
}

// QueuesAndLatest is Queues. In the same listing it finds the latest entries, the newest first, of the poison queues
// that come first by their names: each of so many of so many queues.
func QueuesAndLatest(ctx context.Context, d *act.Desk, each, queues int) (names []string, poisoned map[string]int64, latest map[string][]poison.State, err error) {
	poisoned, latest = map[string]int64{}, map[string][]poison.State{}
	for e, err := range poison.States(ctx, d.Store, "") { // in the order of the names
		if err != nil {
			return nil, nil, nil, err
		}
		poisoned[e.Queue]++
		if _, chosen := latest[e.Queue]; chosen || len(latest) < queues {
			latest[e.Queue] = withLatest(latest[e.Queue], e, each)
		}
	}
	all := maps.Clone(d.Known.Queues)
	for q := range poisoned {
		all[q] = true
	}
	return slices.Sorted(maps.Keys(all)), poisoned, latest, nil
}

// withLatest adds an entry to the latest ones, which are so many at most.
func withLatest(latest []poison.State, e poison.State, most int) []poison.State {
	at, _ := slices.BinarySearchFunc(latest, e, func(a, b poison.State) int {
		return cmp.Or(b.Put.Compare(a.Put), cmp.Compare(a.Key, b.Key))
	})
	if at >= most {
		return latest
	}
	latest = slices.Insert(latest, at, e)
	return latest[:min(len(latest), most)]
}

// WithUnseen returns the numbers of known queues, and adds the queues with messages of which no program and no poison
// queue tells: a web was started before its worker, or by a version that no worker has any more. fault says why the
// store doesn't list its queues, as where the operator has no right to; then none are added.
func WithUnseen(ctx context.Context, d *act.Desk, names []string) (_ []string, stats []storage.Stats, fault, err error) {
	if stats, err = Stats(ctx, d, names); err != nil {
		return nil, nil, nil, err
	}
	found, fault := unseen(ctx, d, names)
	switch {
	case ctx.Err() != nil:
		return nil, nil, nil, context.Cause(ctx)
	case fault != nil:
		return names, stats, fault, nil
	}
	more, err := Stats(ctx, d, found)
	if err != nil {
		return nil, nil, nil, err
	}
	all := map[string]storage.Stats{}
	for i, st := range stats {
		all[names[i]] = st
	}
	for i, st := range more {
		if st.Ready != 0 || st.InFlight != 0 || st.Delayed != 0 {
			all[found[i]] = st
		}
	}
	names, stats = slices.Sorted(maps.Keys(all)), nil
	for _, name := range names {
		stats = append(stats, all[name])
	}
	return names, stats, nil, nil
}

// unseen lists the queues of the store that are none of names, and no lanes. From then on the desk counts lanes with
// their queue, also those of which no program has told.
func unseen(ctx context.Context, d *act.Desk, names []string) ([]string, error) {
	every := lanes.Queue{Lanes: lanes.Most, Priorities: true}
	divided, lane, found := map[string]lanes.Queue{}, map[string]bool{}, map[string]bool{}
	for _, name := range names {
		for _, l := range every.Names(name) {
			lane[l] = true
		}
	}
	for name, err := range d.Store.Queues(ctx) {
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
	d.Store, err = wire.WithLanes(d.Store, divided)
	return slices.Sorted(maps.Keys(found)), err
}

// Stats counts the messages of queues, of several at a time.
func Stats(ctx context.Context, d *act.Desk, names []string) ([]storage.Stats, error) {
	stats := make([]storage.Stats, len(names))
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, name := range names {
		if storage.CheckName(name) != nil { // a blob that no worker has written
			stats[i] = storage.Stats{Ready: -1, InFlight: -1, Delayed: -1, Oldest: -1}
			continue
		}
		g.Go(func() (err error) {
			stats[i], err = d.Store.Queue(name).Stats(asking)
			return err
		})
	}
	return stats, g.Wait()
}

// ConsumedBy names a queue's consumers for people.
func ConsumedBy(d *act.Desk, queue string) string {
	switch all := d.Known.Consumers(queue); {
	case !Routed(d, queue):
		return "in no route"
	case len(all) > 0:
		return known.Versions(all)
	case d.Known.Nobody():
		return act.Unknown
	}
	return "nobody"
}

// Routed reports that a route leads to a queue, of this binary or of a program as it is now.
func Routed(d *act.Desk, queue string) bool {
	return d.Known.RoutedNow()[queue] || OwnRoutes(d, queue)
}

// OwnRoutes reports that the routes of this binary's program lead to a queue.
func OwnRoutes(desk *act.Desk, queue string) bool {
	return desk.Known.Own != nil && slices.ContainsFunc(desk.Known.Own.Queues, func(q catalog.Queue) bool { return q.Name == queue })
}
