package wire

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// A Route names the queues that the messages of a kind go to, or says something of queues. Users know it as
// channel.Route.
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

// NewRoute routes a kind to queues: a command to one, an event to those of its subscriber groups.
func NewRoute(k Kind, t reflect.Type, command bool, queues ...string) Route {
	return Route{kind: k, command: command, queues: slices.Clone(queues), message: t, fault: CheckType(k, t)}
}

// Routed routes the commands of m's type and m's kind to a queue. So it is for a type whose kind depends on its value.
func Routed(m Message, queue string) Route {
	if IsNil(m) {
		return Faulty(errors.New("a route of no message"))
	}
	return NewRoute(m.Kind(), reflect.TypeOf(m), true, queue)
}

// InOrder says that queues want the events of each value object in its order; see channel.InOrder.
func InOrder(queues ...string) Route { return Route{together: true, inOrder: slices.Clone(queues)} }

// Divided says how a queue is divided; see channel.Lanes and channel.Priorities.
func Divided(queue string, how lanes.Queue) Route {
	return Route{together: true, divided: queue, division: how}
}

// Together makes several routes one value.
func Together(routes ...Route) Route { return Route{together: true, parts: slices.Clone(routes)} }

// Faulty is no route, but an error that [NewRoutes] reports.
func Faulty(err error) Route { return Route{together: true, fault: err} }

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

// Routes holds the routes of all kinds, and doesn't change. Users know it as channel.Routes.
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
		if x.kind == "" && x.message != nil {
			faults = append(faults, fmt.Errorf("the zero value of %v has no kind: its method Kind must not need a value", x.message))
		} else if err := x.kind.Check(); err != nil {
			faults = append(faults, err)
		} else if _, ok := r.byKind[x.kind]; ok {
			faults = append(faults, fmt.Errorf("kind %s has two routes; want one", x.kind))
		}
		seen := map[string]bool{}
		for _, q := range x.queues {
			if err := storage.CheckName(q); err != nil {
				faults = append(faults, fmt.Errorf("route of %s: %w", x.kind, err))
			}
			if q == StowedQueue { // its messages could name the bodies that documents keep
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

// Ordered reports that a queue wants messages in the order of their value objects; see channel.InOrder.
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

// IsCommand reports that a kind is routed as a command.
func (r *Routes) IsCommand(k Kind) bool { return r.byKind[k].command }

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

// QueuesOf returns the queues that messages of a kind go to. The caller doesn't change them.
func (r *Routes) QueuesOf(k Kind) ([]string, error) {
	x, ok := r.byKind[k]
	if !ok {
		return nil, fmt.Errorf("channel: no route for kind %s: add channel.Command or channel.Event for it to the routes", k)
	}
	return x.queues, nil
}

// All lists all kinds that have queues, sorted.
func (r *Routes) All() []RoutedKind {
	var all []RoutedKind
	for _, k := range slices.Sorted(maps.Keys(r.byKind)) {
		x := r.byKind[k]
		all = append(all, RoutedKind{Kind: k, Message: x.message, Command: x.command, Queues: slices.Clone(x.queues)})
	}
	return all
}

// Lanes returns how queues are divided, by their names. A queue that isn't divided is not among them.
func (r *Routes) Lanes() map[string]lanes.Queue { return maps.Clone(r.lanes) }

// divide notes how queues are divided, and returns what is wrong with that.
func (r *Routes) divide(routes []Route) (faults []error) {
	known := r.Queues()
	for _, x := range routes {
		if x.divided == "" {
			continue
		}
		old := r.lanes[x.divided]
		switch {
		case !slices.Contains(known, x.divided):
			faults = append(faults, fmt.Errorf("queue %s has lanes or priorities, but no route leads to it", storage.Quote(x.divided)))
			continue
		case x.division.Lanes != 0 && old.Lanes != 0:
			faults = append(faults, fmt.Errorf("queue %s has its lanes twice", x.divided))
		}
		old.Lanes = max(old.Lanes, x.division.Lanes)
		old.Priorities = old.Priorities || x.division.Priorities
		r.lanes[x.divided] = old
	}
	for _, queue := range slices.Sorted(maps.Keys(r.lanes)) {
		faults = append(faults, r.lanes[queue].Check(queue))
		for _, name := range r.lanes[queue].Names(queue)[1:] {
			if slices.Contains(known, name) {
				faults = append(faults, fmt.Errorf("queue %s has lanes, and one of them is called %s, as another queue is", queue, name))
			}
		}
	}
	if errors.Join(faults...) == nil {
		return nil
	}
	return faults
}
