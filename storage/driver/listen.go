package driver

import (
	"context"
	"math"
	"time"
)

// A Listener tells that something may have happened, so that idle consumers poll rarely and still pick up at once.
// Each event has a topic: the name of a queue, or any other name that is good for one.
//
// A ring is a hint. It may come late, twice, for nothing, or (rarely) not at all. A sender writes what must not be
// missed to the store before it rings, and a consumer also looks for it now and then without a ring.
//
// A publication is a ring that brings data, and says how many took it. It is given to the subscribers of the topic at
// that moment, at most once, and is stored nowhere.
type Listener interface {
	// Listen subscribes to a topic, until the subscription is closed. The topic of a queue rings when the queue may
	// have become receivable: a message is sent or handed back, or a delay ends. The end of a visibility rings where
	// the driver can tell it cheaply; otherwise the next poll finds the message.
	Listen(topic string) Subscription

	// Ring rings all subscribers of a topic, in this process and in others. It doesn't wait for them.
	Ring(topic string)

	// Subscribe calls the receiver for what is published on a topic, until the Registration is closed. It is ready when
	// it returns: the receiver is called for what any process publishes afterwards, as far as the transport reaches. An
	// error means that nothing is received.
	Subscribe(ctx context.Context, topic string, receiver Receiver) (Registration, error)

	// Publish hands data, at most [MaxTell] bytes, to the receivers of a topic, in this process and in others. It
	// returns how many took it.
	//
	// With one set at most one takes it, chosen at random among those that would, and received is 0 or 1. An error then
	// says whether the data may have been received; the driver never chooses a second receiver instead. Without one,
	// each gets it. received counts the receivers that took it and answered, and a process that doesn't answer is no
	// error, unless it has never answered this one. An error means that some were not reached.
	Publish(ctx context.Context, topic string, data []byte, one bool) (received int, err error)
}

// MaxPublish is how many bytes one publication may bring. With its heads it fits into one packet of an Ethernet.
const MaxPublish = 1280

// Everyone is the most that a [Receiver] is called with, when all shall take the data.
const Everyone = math.MaxInt32

// A Receiver takes what is published on a topic. With most 0 it is only asked, and returns how many would take data
// now. Else it gives data to at most most ([Everyone] for no bound), and returns how many took it; a receiver may well
// refuse what it would have taken before.
//
// A receiver is called concurrently, and returns at once. The data is its own. A receiver that panics, ends its
// goroutine or doesn't return within seconds took nothing. A receiver that hangs is not called again until it has
// returned.
type Receiver func(data []byte, most int) int

// A Registration is the time in which a receiver is called.
type Registration interface {
	// Lost is closed when the connection is lost, and when the store is closed: what is published may no longer come. A
	// lost Registration stays lost. Close it, and call Subscribe again.
	Lost() <-chan struct{}

	// Close ends the Registration. A call of the receiver that has begun may still be under way. Closing twice is
	// harmless.
	Close()
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
	// process's clock, at or somewhat before the beginning of their visibility. It may wait for a transaction under
	// way; if ctx ends first, the messages of that transaction stay hidden until their visibility ends.
	//
	// A driver that can't do this returns a nil channel, and a nil take.
	Claim(max int, visibility time.Duration) (ready <-chan struct{}, take func(ctx context.Context) ([]Delivery, time.Time))

	// Close ends the subscription. Closing twice is harmless.
	Close()
}
