package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// Lanes divides a queue into n lanes, 1 to 16, and 4 slow lanes. It stands among the routes, because a queue has its
// lanes whatever kinds go to it. Each tenant (see [WithTrace]) has one lane, and messages without a tenant are spread
// by their IDs. Workers take turns over the lanes, and tenants that flood the queue are put aside into the slow lanes,
// over which they take turns, too. To all else it stays one queue. The name of the queue has at most 42 characters, and
// 37 with [Priorities]. See package storage/lanes.
func Lanes(queue string, n int) Route {
	r := Route{together: true, divided: queue, division: lanes.Queue{Lanes: n}}
	if n < 1 {
		r.fault = fmt.Errorf("queue %s has %d lanes; want 1 to %d", storage.Quote(queue), n, lanes.Most)
	}
	return r
}

// Priorities gives the messages of a queue turns by their priority, which [WithPriority] sets. It stands among the
// routes, with or without [Lanes].
func Priorities(queue string) Route {
	return Route{together: true, divided: queue, division: lanes.Queue{Priorities: true}}
}

// A Priority says how urgent a message is. Messages of a higher one get more turns, never all of them.
type Priority = lanes.Priority

// Priorities of messages. While messages of all three wait, workers take 8 of High and 4 of Normal for each of Low, or
// as [Weigh] says.
const (
	High   = lanes.High
	Normal = lanes.Normal
	Low    = lanes.Low
)

// Weights are how many messages of each priority are taken while all of them wait, each 1 to 100. A zero is the
// default.
//
//	High   int `json:"high,omitzero"`   // Defaults to 8.
//	Normal int `json:"normal,omitzero"` // Defaults to 4.
//	Low    int `json:"low,omitzero"`    // Defaults to 1.
type Weights = lanes.Weights

// Weigh puts other weights in force for a queue of [Priorities], in the workers of c in this process. They may run. Low
// is never starved, whatever the weights. With package host they are a setting; see host.LiveQueue. An error says what
// is wrong, and changes nothing.
func Weigh(c *Channels, queue string, w Weights) error {
	if err := lanes.Weigh(c.store, queue, w); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	return nil
}

type priorityKey struct{}

// WithPriority returns a context under which messages are sent with a priority. It has an effect in the queues of
// [Priorities]. A handler sends with the priority of the message that it handles, unless its context has another one.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// priorityName is how a priority stands in an envelope.
func priorityName(p Priority) string {
	switch {
	case p > Normal:
		return "high"
	case p < Normal:
		return "low"
	}
	return ""
}

// WithLanes returns a store whose queues are divided. It is for this module's own packages; [New] does it for programs.
func WithLanes(_ wire.Inside, store *storage.Store, queues map[string]lanes.Queue) (*storage.Store, error) {
	return lanes.Over(store, lanes.Config{Queues: queues, Read: readMark, Unhad: unhad})
}

// readMark reads what decides on the lane of a message.
func readMark(body []byte) lanes.Mark {
	m := wire.ReadMark(body)
	mark := lanes.Mark{Tenant: m.Tenant, ID: m.ID, Delayed: m.Delayed, Apart: m.Apart}
	switch m.Priority {
	case "high":
		mark.Priority = High
	case "low":
		mark.Priority = Low
	}
	return mark
}

// unhad notes in a message that was delivered, and that no handler has had, that this was a hand-back: it counts as one
// of a worker does. One that isn't due yet is hidden until then.
func unhad(d storage.Delivery) (body []byte, delay time.Duration, ok bool) {
	e, err := wire.Decode(d.Body)
	if err != nil {
		return nil, 0, false
	}
	delay = e.Early(time.Now())
	switch {
	case delay > 0: // no delivery before its time counts
		e.Hops = max(0, d.Deliveries-e.Attempts-e.HandBacks)
	case !e.Due.IsZero(): // it can still be cancelled
		e.Hops++
	default:
		e.HandBacks++
	}
	body, err = e.Encode()
	return body, delay, err == nil
}

// AtMostBelow returns a context under which one Receive of a queue with [Priorities] brings at most n messages below a
// priority. It is for this module's own packages.
func AtMostBelow(_ wire.Inside, ctx context.Context, p Priority, n int) context.Context {
	return lanes.AtMostBelow(ctx, p, n)
}

// PriorityOf reads the priority of an encoded message. It is for this module's own packages.
func PriorityOf(_ wire.Inside, body []byte) Priority { return readMark(body).Priority }

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
