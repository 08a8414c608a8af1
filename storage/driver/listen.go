package driver

import (
	"context"
	"time"
)

// A Listener tells that something may have happened, so that idle consumers poll rarely and still pick up at once.
// Each event has a topic: the name of a queue, or any other name that is good for one.
//
// A ring is a hint. It may come late, twice, for nothing, or (rarely) not at all. A sender writes what must not be
// missed to the store before it rings, and a consumer also looks for it now and then without a ring.
type Listener interface {
	// Listen subscribes to a topic, until the subscription is closed. The topic of a queue rings when the queue may have
	// become receivable: a message is sent or handed back, or a delay ends. The end of a visibility rings where the
	// driver can tell it cheaply; otherwise the next poll finds the message.
	Listen(topic string) Subscription

	// Ring rings all subscribers of a topic, in this process and in others. It doesn't wait for them.
	Ring(topic string)
}

// A Subscription belongs to one listener.
type Subscription interface {
	// Rings is a channel of capacity 1. Rings that nobody takes are folded into one. There may be one at the beginning.
	Rings() <-chan struct{}

	// Claim asks for messages that will be sent to the topic's queue without a delay: up to max of them (1 to
	// Props.MaxReceive) are received for this caller, as they are written, for visibility. ready is closed when some
	// have come, and no more come then. They are durable by then, as if received. These messages never come this way:
	// messages that are in the queue already, that become receivable by time, or that are sent through another store.
	//
	// take ends the claim and must be called. It returns the messages that have come, perhaps none, and a time, by this
	// process's clock, at or somewhat before the beginning of their visibility. It may wait for a transaction under way;
	// if ctx ends first, the messages of that transaction stay hidden until their visibility ends.
	//
	// A driver that can't do this returns a nil channel, and a nil take.
	Claim(max int, visibility time.Duration) (ready <-chan struct{}, take func(ctx context.Context) ([]Delivery, time.Time))

	// Close ends the subscription. Closing twice is harmless.
	Close()
}
