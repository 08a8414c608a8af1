package driver

import "context"

// A Finder finds messages by the keys that they were sent with.
type Finder interface {
	// Find lists the messages of a queue with a key. It changes nothing: it is no delivery. A message keeps its key when
	// it is rewritten.
	//
	// A message that nobody has received since it was sent or rewritten has a receipt, which is good for Delete alone. It
	// dies when the message is received. So either that Delete gets the message or a consumer does. Other messages have
	// no receipt: they are in flight, or their visibility has ended. Deliveries counts those so far.
	Find(ctx context.Context, queue, key string) ([]Delivery, error)
}
