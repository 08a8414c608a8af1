package wire

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// WithLanes returns a store whose queues are divided.
func WithLanes(store *storage.Store, queues map[string]lanes.Queue) (*storage.Store, error) {
	return lanes.Over(store, lanes.Config{Queues: queues, Read: readLane, Unhad: unhad})
}

// AtMostBelow returns a context under which one Receive of a queue with priorities brings at most n messages below a
// priority.
func AtMostBelow(ctx context.Context, p lanes.Priority, n int) context.Context {
	return lanes.AtMostBelow(ctx, p, n)
}

// readLane reads what decides on the lane of a message.
func readLane(body []byte) lanes.Mark {
	m := ReadMark(body)
	mark := lanes.Mark{Tenant: m.Tenant, ID: m.ID, Delayed: m.Delayed, Apart: m.Apart}
	switch m.Priority {
	case "high":
		mark.Priority = lanes.High
	case "low":
		mark.Priority = lanes.Low
	}
	return mark
}

// PriorityName is how a priority stands in an envelope.
func PriorityName(p lanes.Priority) string {
	switch {
	case p > lanes.Normal:
		return "high"
	case p < lanes.Normal:
		return "low"
	}
	return ""
}

// PriorityOf reads the priority of an encoded message.
func PriorityOf(body []byte) lanes.Priority { return readLane(body).Priority }

// unhad notes in a message that was delivered, and that no handler has had, that this was a hand-back: it counts as one
// of a worker does. One that isn't due yet is hidden until then.
func unhad(d storage.Delivery) (body []byte, delay time.Duration, ok bool) {
	e, err := Decode(d.Body)
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
