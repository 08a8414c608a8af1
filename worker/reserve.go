package worker

import (
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// A Reserve keeps handlers of a queue free for urgent messages, so that these don't wait until long ones of a lower
// priority end. High reserves for High messages; Normal reserves for those and for Normal ones. Set one of them.
//
//	worker.QueueConfig{Concurrency: 32, Reserve: worker.Reserve{High: 8}} // other messages hold 24 handlers at most
//
// Urgent messages take any handler. A fold of one document counts as its most urgent message. So do messages of one key
// that take turns. When a [Limiter] lowers Concurrency, one handler at least stays open to all.
type Reserve struct {
	High, Normal int
}

// slots is how many handlers are reserved.
func (r Reserve) slots() int { return r.High + r.Normal }

// below is the priority that a message must have to take a reserved handler.
func (r Reserve) below() channel.Priority {
	if r.Normal > 0 {
		return channel.Normal
	}
	return channel.High
}

// keepsOut reports that a message may not take a reserved handler.
func (r Reserve) keepsOut(body []byte) bool {
	return r.slots() > 0 && wire.PriorityOf(body) < r.below()
}

// kept is how many of so many places are kept from messages that may not take a reserved handler.
func kept(reserved, places int) int { return max(0, min(reserved, places-1)) }

// reserve checks the reserve of a queue, of which so many handlers run at a time.
func (f *faults) reserve(queue string, r Reserve, concurrency int, priorities bool) {
	where := "queue " + storage.Quote(queue) + ": "
	f.number(where, "Reserve.High", r.High)
	f.number(where, "Reserve.Normal", r.Normal)
	switch {
	case r.High < 0 || r.Normal < 0 || r.slots() == 0:
	case r.High > 0 && r.Normal > 0:
		f.add("%sReserve has both High and Normal; set one of them", where)
	case !priorities:
		f.add("%sReserve keeps handlers for messages of a priority, and the queue has none; add channel.Priorities(%q) to the routes", where, queue)
	case r.slots() >= concurrency:
		f.add("%sReserve keeps %d of %d handlers, and none is left for other messages; reserve fewer, or raise Concurrency", where, r.slots(), concurrency)
	}
}
