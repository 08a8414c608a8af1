package driver

import (
	"context"
	"iter"
	"time"
)

// A Peeker shows what waits in a queue. An operator's tools use it.
type Peeker interface {
	// Peek yields the messages of a queue that no consumer holds. Ready messages come first, those in front that would be
	// received first. Then come delayed messages, by the end of their delay. An engine that can't tell more yields the
	// first ready messages alone.
	//
	// Peek changes nothing: it is no delivery. It reads in pages as the loop goes on, so it is no snapshot; an error is
	// yielded last and once.
	Peek(ctx context.Context, queue string) iter.Seq2[Peeked, error]
}

// A Peeked is a message that waits in a queue. It has no receipt where the engine can't delete what it shows, and where
// a consumer's time is over, because that one may still be at work.
type Peeked struct {
	Body       []byte    // the caller's
	Receipt    Receipt   // deletes the message while it waits; "" where there is none
	Deliveries int       // how often the message has been handed out so far
	SentAt     time.Time // when the store took it, by the store's clock; a Rewrite doesn't change it
	ReadyAt    time.Time // when its delay ends, by the store's clock; zero: it is ready
}
