package known

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/reveal"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// StillThere is how long after its last publication a version of a program counts as running: a worker publishes once
// a day.
const StillThere = 48 * time.Hour

// Programs is what is known of the programs that use a store.
type Programs struct {
	Published []catalog.Description // that could be read, the last published last
	Faulty    []catalog.Description // that couldn't
	Own       *catalog.Description  // of this binary's program; nil for none
	Queues    map[string]bool       // that a route of any program leads to, or has led to lately
}

// Read reads what the programs of a store have published. own is of this binary's program; nil for none.
func Read(ctx context.Context, s *storage.Store, own *catalog.Description) (*Programs, error) {
	all, err := catalog.Read(ctx, s)
	if err != nil {
		return nil, err
	}
	k := &Programs{Own: own, Queues: map[string]bool{}}
	slices.SortStableFunc(all, func(a, b catalog.Description) int { return a.Last.Compare(b.Last) })
	for _, d := range all {
		if d.Fault != "" {
			k.Faulty = append(k.Faulty, d)
		} else {
			k.Published = append(k.Published, d)
		}
	}
	for _, d := range k.All() {
		for _, q := range d.Queues {
			k.Queues[q.Name] = true
		}
		for _, x := range d.Left {
			k.Queues[x.Name] = true
		}
	}
	return k, nil
}

// Nobody reports that nothing is known of any program.
func (k *Programs) Nobody() bool { return len(k.Published) == 0 && k.Own == nil }

// All returns all descriptions, the most trustworthy first: that of this binary, and then the latest.
func (k *Programs) All() (all []*catalog.Description) {
	if k.Own != nil {
		all = append(all, k.Own)
	}
	for i := range slices.Backward(k.Published) {
		all = append(all, &k.Published[i])
	}
	return all
}

// Running returns the versions of programs that have published lately, by name.
func (k *Programs) Running() (all []*catalog.Description) {
	for i := range k.Published {
		if d := &k.Published[i]; time.Since(d.Last) < StillThere {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *catalog.Description) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.First.Compare(b.First))
	})
	return all
}

// RoutedNow returns the queues in the routes of the programs as they are: of the versions that run, and of the last one
// of a program that doesn't.
func (k *Programs) RoutedNow() map[string]bool {
	all, seen := map[string]bool{}, map[string]bool{}
	for i := range slices.Backward(k.Published) {
		d := &k.Published[i]
		if seen[d.Name] && time.Since(d.Last) >= StillThere {
			continue
		}
		seen[d.Name] = true
		for _, q := range d.Queues {
			all[q.Name] = true
		}
	}
	return all
}

// RoutedNext returns the queues in the routes of the newest version of each program that runs, and of the last one of a
// program that doesn't. A queue of older versions alone is left when they go.
func (k *Programs) RoutedNext() map[string]bool {
	newest := map[string]*catalog.Description{}
	for i := range k.Published {
		newest[k.Published[i].Name] = &k.Published[i]
	}
	for _, d := range k.Running() { // by name, the oldest first
		newest[d.Name] = d
	}
	all := map[string]bool{}
	for _, d := range newest {
		for _, q := range d.Queues {
			all[q.Name] = true
		}
	}
	return all
}

// Consumers returns the versions of programs that have a handler for a queue and have published lately.
func (k *Programs) Consumers(queue string) []*catalog.Description {
	return slices.DeleteFunc(k.Running(), func(d *catalog.Description) bool { return !d.Consumes(queue) })
}

// Kind returns what is known of a kind, best by a program that consumes its queue. It is nil if nobody knows the kind.
func (k *Programs) Kind(kind channel.Kind) *catalog.Kind {
	var second *catalog.Kind
	for _, d := range k.All() {
		i := slices.IndexFunc(d.Kinds, func(x catalog.Kind) bool { return x.Kind == kind })
		if i < 0 {
			continue
		}
		x := &d.Kinds[i]
		if d == k.Own || slices.ContainsFunc(x.Queues, d.Consumes) {
			return x
		}
		second = cmp.Or(second, x)
	}
	return second
}

// Commands returns the kinds of command that anybody knows, sorted.
func (k *Programs) Commands() []string {
	all := map[string]bool{}
	for _, d := range k.All() {
		for _, x := range d.Kinds {
			if x.Command {
				all[string(x.Kind)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Kinds returns all kinds that anybody knows, sorted.
func (k *Programs) Kinds() []string {
	all := map[string]bool{}
	for _, d := range k.All() {
		for _, x := range d.Kinds {
			all[string(x.Kind)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Handler returns what handles a kind from a queue.
func (k *Programs) Handler(queue string, kind channel.Kind) (catalog.Handler, bool) {
	for _, d := range k.All() {
		for _, q := range d.Queues {
			for _, h := range q.Handlers {
				if q.Name == queue && h.Kind == kind {
					return h, true
				}
			}
		}
	}
	return catalog.Handler{}, false
}

// Bodies returns what all programs have told of the bodies of a kind.
func (k *Programs) Bodies(kind channel.Kind) reveal.Schema {
	return k.bodies(func(x *catalog.Kind) bool { return x.Kind == kind })
}

// BodiesIn returns what all programs have told of the bodies of all kinds in a queue.
func (k *Programs) BodiesIn(queue string) reveal.Schema {
	return k.bodies(func(x *catalog.Kind) bool { return slices.Contains(x.Queues, queue) })
}

func (k *Programs) bodies(of func(*catalog.Kind) bool) reveal.Schema {
	var all [][]byte
	for _, d := range k.All() {
		for i := range d.Kinds {
			if of(&d.Kinds[i]) {
				all = append(all, d.Kinds[i].Schema)
			}
		}
	}
	return reveal.Of(all...)
}

// Values returns what all programs have told of the values in a collection, as they are stored.
func (k *Programs) Values(collection string) reveal.Schema {
	return k.collection(collection, func(x *catalog.Collection) []json.RawMessage { return []json.RawMessage{x.Schema} })
}

// States returns what all programs have told of the states of a plan.
func (k *Programs) States(plan string) reveal.Schema {
	return k.collection(plan, func(x *catalog.Collection) []json.RawMessage { return x.States })
}

func (k *Programs) collection(name string, schemas func(*catalog.Collection) []json.RawMessage) reveal.Schema {
	var all [][]byte
	for _, d := range k.All() {
		for i := range d.Collections {
			if d.Collections[i].Name != name {
				continue
			}
			for _, s := range schemas(&d.Collections[i]) {
				all = append(all, s)
			}
		}
	}
	return reveal.Of(all...)
}

// Collections returns the names of the collections, or of those that are views, sorted.
func (k *Programs) Collections(viewsOnly bool) []string {
	all := map[string]bool{}
	for _, d := range k.All() {
		for _, x := range d.Collections {
			if x.View || !viewsOnly {
				all[x.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Versions names programs with their versions: "shop v1, v2; mail v7".
func Versions(all []*catalog.Description) string {
	var b strings.Builder
	for i, d := range all {
		switch {
		case i > 0 && all[i-1].Name == d.Name:
			b.WriteString(", " + d.Version)
			continue
		case i > 0:
			b.WriteString("; ")
		}
		b.WriteString(d.Name + " " + d.Version)
	}
	return b.String()
}

// Lanes returns how queues are divided. Where programs differ, it is by the most lanes, so that all are counted.
func (k *Programs) Lanes() map[string]lanes.Queue {
	all := map[string]lanes.Queue{}
	for _, d := range k.All() {
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

// Divided returns how the last program that consumes a queue divides it. ok is false if no program has consumed it.
func (k *Programs) Divided(queue string) (x lanes.Queue, ok bool) {
	for i := range slices.Backward(k.Published) {
		d := &k.Published[i]
		j := slices.IndexFunc(d.Queues, func(q catalog.Queue) bool { return q.Name == queue })
		if j >= 0 && d.Consumes(queue) {
			return lanes.Queue{Lanes: d.Queues[j].Lanes, Priorities: d.Queues[j].Priorities}, true
		}
	}
	return lanes.Queue{}, false
}

// Guard returns the guard that a queue waits for, by the last program that consumes the queue; "" for none.
func (k *Programs) Guard(queue string) string {
	for i := range slices.Backward(k.Published) {
		d := &k.Published[i]
		j := slices.IndexFunc(d.Queues, func(q catalog.Queue) bool { return q.Name == queue })
		if j >= 0 && d.Consumes(queue) {
			return d.Queues[j].Guard
		}
	}
	return ""
}

// Names reports that programs have published a name: of a queue, of a guard or of a kind.
func (k *Programs) Names(name string) bool {
	return k.Queues[name] || slices.ContainsFunc(k.All(), func(d *catalog.Description) bool {
		return slices.ContainsFunc(d.Queues, func(q catalog.Queue) bool { return q.Guard == name && name != "" }) ||
			slices.ContainsFunc(d.Kinds, func(x catalog.Kind) bool { return string(x.Kind) == name })
	})
}

// Plans returns the plans that anybody knows, sorted.
func (k *Programs) Plans() []string {
	all := map[string]bool{}
	for _, kind := range k.Kinds() {
		if plan, ok := process.PlanOf(channel.Kind(kind)); ok {
			all[plan] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// MayTakeTurns reports that a program has said so of its handlers of a queue, or that none has told of them.
func (k *Programs) MayTakeTurns(queue string) bool {
	described := false
	for _, d := range k.All() {
		for _, q := range d.Queues {
			if q.Name != queue {
				continue
			}
			for _, h := range q.Handlers {
				if described = true; h.Turns {
					return true
				}
			}
		}
	}
	return !described
}
