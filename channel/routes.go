package channel

import (
	"fmt"
	"reflect"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// A Route names the queues that the messages of a kind go to, or says something of queues. [Command], [Event],
// [InOrder], [Lanes] and [Priorities] make one.
type Route = wire.Route

// Command routes the commands of a type to the one queue whose workers decide them. A queue's name is 3 to 50
// lower-case letters, digits and single hyphens, beginning with a letter; see storage.CheckName. NewRoutes reports any
// other name.
func Command[M Message](queue string) Route {
	return wire.NewRoute(KindOf[M](), reflect.TypeFor[M](), true, queue)
}

// Event routes the events of a type to its subscriber groups. Each group has a queue of its own, named after it; the
// rules for names are those of [Command]. An event without a group has no subscriber yet.
func Event[M Message](groups ...string) Route {
	return wire.NewRoute(KindOf[M](), reflect.TypeFor[M](), false, groups...)
}

// InOrder says that queues want the events of each value object in its order: see handlers.ReactInOrder. Each event of
// a value object then names the one before it to each of these queues. All programs that emit events to such a
// queue must have this Route. A registry refuses other handlers of such a queue.
func InOrder(queues ...string) Route { return wire.InOrder(queues...) }

// Lanes divides a queue into n lanes, 1 to 16, and 4 slow lanes. It stands among the routes, because a queue has its
// lanes whatever kinds go to it. Each tenant (see [WithTrace]) has one lane, and messages without a tenant are spread
// by their IDs. Workers take turns over the lanes, and tenants that flood the queue are put aside into the slow lanes,
// over which they take turns, too. To all else it stays one queue. The name of the queue has at most 42 characters, and
// 37 with [Priorities]. See package storage/lanes.
func Lanes(queue string, n int) Route {
	divided := wire.Divided(queue, lanes.Queue{Lanes: n})
	if n < 1 {
		return wire.Together(divided, wire.Faulty(fmt.Errorf("queue %s has %d lanes; want 1 to %d", storage.Quote(queue), n, lanes.Most)))
	}
	return divided
}

// Priorities gives the messages of a queue turns by their priority, which [WithPriority] sets. It stands among the
// routes, with or without [Lanes].
func Priorities(queue string) Route { return wire.Divided(queue, lanes.Queue{Priorities: true}) }

// Routes holds the routes of all kinds. Senders and workers share one value, which doesn't change. Its method Queues
// returns all queues that any kind goes to, and Kinds the kinds that go to a queue; both are sorted.
type Routes = wire.Routes

// NewRoutes checks the routes and returns them as one value. It reports all faults together. It refuses a type if
// JSON keeps none of its fields.
func NewRoutes(routes ...Route) (*Routes, error) { return wire.NewRoutes(routes...) }
