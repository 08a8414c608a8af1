package channel

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// A Route names the queues that the messages of a kind go to. [Command] and [Event] make one.
type Route struct {
	kind    Kind
	command bool
	queues  []string
	message reflect.Type
	fault   error // of the type

	together bool // it stands for the parts
	parts    []Route

	// These say something of queues, and not of a kind.
	divided  string // a queue that has lanes
	division lanes.Queue
	inOrder  []string // queues that are in order
}

// Command routes the commands of a type to the one queue whose workers decide them. A queue's name is 3 to 50
// lower-case letters, digits and single hyphens, beginning with a letter; see storage.CheckName. NewRoutes reports any
// other name.
func Command[M Message](queue string) Route {
	return route(KindOf[M](), reflect.TypeFor[M](), true, queue)
}

// Event routes the events of a type to its subscriber groups. Each group has a queue of its own, named after it; the
// rules for names are those of [Command]. An event without a group has no subscriber yet.
func Event[M Message](groups ...string) Route {
	return route(KindOf[M](), reflect.TypeFor[M](), false, groups...)
}

// InOrder says that queues want the events of each value object in its order: see handlers.ReactInOrder. Each event of
// a value object then names the one before it to each of these queues. All programs that emit events to such a
// queue must have this Route. A registry refuses other handlers of such a queue.
func InOrder(queues ...string) Route { return Route{together: true, inOrder: slices.Clone(queues)} }

func route(k Kind, t reflect.Type, command bool, queues ...string) Route {
	return Route{kind: k, command: command, queues: slices.Clone(queues), message: t, fault: wire.CheckType(k, t)}
}

// Routed routes the messages of m's type and m's kind: as commands where x says so, else as events. It is for this
// module's own packages, as are [Together] and [Faulty]: a type of theirs may have a kind that depends on its value.
func Routed(x wire.Inside, m Message, queues ...string) Route {
	if wire.IsNil(m) {
		return Faulty(x, errors.New("a route of no message"))
	}
	r := route(m.Kind(), reflect.TypeOf(m), x.Command, queues...)
	if x.Command && len(queues) != 1 {
		r.fault = errors.Join(r.fault, fmt.Errorf("command %s has %d queues; want one", r.kind, len(queues)))
	}
	return r
}

// Together makes several routes one value. NewRoutes takes it for all of them.
func Together(_ wire.Inside, routes ...Route) Route {
	return Route{together: true, parts: slices.Clone(routes)}
}

// Faulty is no route, but an error that NewRoutes reports.
func Faulty(_ wire.Inside, err error) Route { return Route{together: true, fault: err} }

// flat returns routes with the parts of those that stand for several, and apart from them what routes say of queues.
func flat(routes []Route) (all, queues []Route, faults []error) {
	for _, x := range routes {
		if x.fault != nil {
			faults = append(faults, x.fault)
		}
		if !x.together {
			all = append(all, x)
			continue
		}
		if x.divided != "" || len(x.inOrder) > 0 {
			queues = append(queues, x)
		}
		parts, also, more := flat(x.parts)
		all, queues, faults = append(all, parts...), append(queues, also...), append(faults, more...)
	}
	return all, queues, faults
}

// Routes holds the routes of all kinds. Senders and workers share one value, which doesn't change.
type Routes struct {
	byKind  map[Kind]Route
	lanes   map[string]lanes.Queue
	ordered map[string]bool   // queues in order
	orders  map[Kind][]string // those of a kind, sorted
}

// NewRoutes checks the routes and returns them as one value. It reports all faults together. It refuses a type if
// JSON keeps none of its fields.
func NewRoutes(routes ...Route) (*Routes, error) {
	r := &Routes{byKind: map[Kind]Route{}, lanes: map[string]lanes.Queue{}, ordered: map[string]bool{}, orders: map[Kind][]string{}}
	routes, queues, faults := flat(routes)
	for _, x := range routes {
		if err := x.kind.Check(); err != nil {
			faults = append(faults, err)
		} else if _, ok := r.byKind[x.kind]; ok {
			faults = append(faults, fmt.Errorf("kind %s has two routes; want one", x.kind))
		}
		seen := map[string]bool{}
		for _, q := range x.queues {
			if err := storage.CheckName(q); err != nil {
				faults = append(faults, fmt.Errorf("route of %s: %w", x.kind, err))
			}
			if q == wire.StowedQueue { // its messages could name the bodies that documents keep
				faults = append(faults, fmt.Errorf("route of %s: queue %s: the framework uses that name; choose another one", x.kind, q))
			}
			if seen[q] {
				faults = append(faults, fmt.Errorf("route of %s names queue %s twice", x.kind, q))
			}
			seen[q] = true
		}
		r.byKind[x.kind] = x
	}
	faults = append(append(faults, r.divide(queues)...), r.order(queues)...)
	if len(faults) > 0 {
		return nil, fmt.Errorf("channel: routes: %w", errors.Join(faults...))
	}
	return r, nil
}

// order notes the queues that are in order.
func (r *Routes) order(routes []Route) (faults []error) {
	for _, x := range routes {
		for _, q := range x.inOrder {
			r.ordered[q] = true
			if len(r.Kinds(q)) == 0 {
				faults = append(faults, fmt.Errorf("queue %s is to be in order, and no kind goes to it", storage.Quote(q)))
			}
		}
	}
	for kind, x := range r.byKind {
		for _, q := range slices.Sorted(slices.Values(x.queues)) {
			if r.ordered[q] {
				r.orders[kind] = append(r.orders[kind], q)
			}
		}
	}
	return faults
}

// Ordered reports that a queue wants messages in the order of their value objects; see [InOrder].
func (r *Routes) Ordered(queue string) bool { return r.ordered[queue] }

// OrderedQueues returns the queues in order that a kind goes to, sorted. The caller doesn't change them.
func (r *Routes) OrderedQueues(k Kind) []string { return r.orders[k] }

// Queues returns all queues that any kind goes to, sorted.
func (r *Routes) Queues() []string {
	all := map[string]bool{}
	for _, x := range r.byKind {
		for _, q := range x.queues {
			all[q] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Kinds returns the kinds that go to a queue, sorted.
func (r *Routes) Kinds(queue string) []Kind {
	var kinds []Kind
	for k, x := range r.byKind {
		if slices.Contains(x.queues, queue) {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Has reports that a kind has a route.
func (r *Routes) Has(k Kind) bool {
	_, ok := r.byKind[k]
	return ok
}

// CommandQueue returns the queue of a command kind.
func (r *Routes) CommandQueue(k Kind) (string, error) {
	x, ok := r.byKind[k]
	if !ok || !x.command {
		return "", fmt.Errorf("channel: no route for command %s: add channel.Command for it to the routes", k)
	}
	return x.queues[0], nil
}

// EventGroups returns the subscriber groups of an event kind.
func (r *Routes) EventGroups(k Kind) ([]string, error) {
	x, ok := r.byKind[k]
	if !ok || x.command {
		return nil, fmt.Errorf("channel: no route for event %s: add channel.Event for it to the routes, without groups if nobody subscribes", k)
	}
	return slices.Clone(x.queues), nil
}

func (r *Routes) queues(k Kind) ([]string, error) {
	x, ok := r.byKind[k]
	if !ok {
		return nil, fmt.Errorf("channel: no route for kind %s: add channel.Command or channel.Event for it to the routes", k)
	}
	return x.queues, nil
}

// routed lists all kinds, for this module's own packages.
func (r *Routes) routed() []wire.Routed {
	var all []wire.Routed
	for _, k := range slices.Sorted(maps.Keys(r.byKind)) {
		x := r.byKind[k]
		all = append(all, wire.Routed{Kind: k, Message: x.message, Command: x.command, Queues: slices.Clone(x.queues)})
	}
	return all
}
