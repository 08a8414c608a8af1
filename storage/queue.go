package storage

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A Queue is a durable queue with competing consumers.
type Queue struct {
	place
	d     driver.Queue
	most  int // messages of one Receive
	limit int // bytes of a body

	finder driver.Finder // nil: no message has a key
	peeker driver.Peeker // nil: nobody sees what waits
}

// Send adds messages. On nil all are durable. After an error a store that is [Store.Atomic] has added none. Another
// store may have added some of them, and the caller sends all of them again. A call without messages has no effect.
func (q *Queue) Send(ctx context.Context, messages []Message) error {
	err := q.ready(ctx, checkMessages(messages, q.limit))
	if err == nil && len(messages) > 0 {
		err = q.d.Send(ctx, messages)
	}
	if err != nil {
		return q.fail("send", err)
	}
	return nil
}

// Receive takes up to max ready messages and hides them for visibility ([MinVisibility] to [MaxVisibility]). max is
// at least 1; more than Props.MaxReceive means Props.MaxReceive. Receive does not wait: without a ready message it
// returns an empty slice. The caller owns the bodies. When it fails, messages may stay hidden until the visibility
// ends.
func (q *Queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]Delivery, error) {
	err := q.ready(ctx, checkReceive(max, visibility))
	var got []Delivery
	if err == nil {
		got, err = q.d.Receive(ctx, min(max, q.most), visibility)
	}
	if err != nil {
		return nil, q.fail("receive", err)
	}
	return got, nil
}

// Extend hides a received message for visibility from now, and returns the receipt to use from then on. A visibility
// of 0 hands the message back at once; the receipt works until somebody receives it. When the receipt is dead or the
// message gone it returns [ErrReceiptStale]. It is never repeated: an unknown outcome means ownership unknown.
func (q *Queue) Extend(ctx context.Context, receipt Receipt, visibility time.Duration) (Receipt, error) {
	err := q.ready(ctx, checkExtend(visibility))
	var next Receipt
	if err == nil {
		next, err = q.d.Extend(ctx, receipt, visibility)
	}
	if err != nil {
		return "", q.fail("extend", err)
	}
	return next, nil
}

// Rewrite ends a delivery: it replaces the body and makes the message receivable by anybody once delay has passed, in
// one step. It returns [ErrReceiptStale] as Extend does.
func (q *Queue) Rewrite(ctx context.Context, receipt Receipt, body []byte, delay time.Duration) error {
	err := q.ready(ctx, checkMessage(Message{Body: body, Delay: delay}, q.limit))
	if err == nil {
		err = q.d.Rewrite(ctx, receipt, body, delay)
	}
	if err != nil {
		return q.fail("rewrite", err)
	}
	return nil
}

// Delete removes received messages. Dead receipts do not stop it, nor do receipts of messages already deleted: a
// [StaleError] names them after all others were removed. After any other error an unknown part is removed.
func (q *Queue) Delete(ctx context.Context, receipts []Receipt) error {
	err := q.ready(ctx, nil)
	if err == nil && len(receipts) > 0 {
		err = q.d.Delete(ctx, receipts)
	}
	if err != nil {
		return q.fail("delete", err)
	}
	return nil
}

// Find lists the messages that were sent with a key, without receiving them. A message that nobody has received since
// it was sent or rewritten has a receipt, which is good for Delete alone and dies when the message is received. So
// either that Delete gets the message or a consumer does. Other messages have no receipt. Deliveries counts those so
// far. Where the store is not one that [Store.Finds], the error matches [ErrUnsupported].
func (q *Queue) Find(ctx context.Context, key string) ([]Delivery, error) {
	err := q.ready(ctx, CheckKey(key))
	var got []Delivery
	switch {
	case err != nil:
	case q.finder == nil:
		err = ErrUnsupported
	default:
		got, err = q.finder.Find(ctx, q.name, key)
	}
	if err != nil {
		return nil, q.fail("find", err)
	}
	return got, nil
}

// Peek yields the messages of the queue that no consumer holds, without receiving them. Ready messages come first,
// those in front that would be received first. Then come delayed messages, by the end of their delay. A store may yield
// the first ready messages alone: Azure Storage yields 32. Peek is no snapshot. Its error is yielded last and once;
// where the store can't show what waits, the error matches [ErrUnsupported].
func (q *Queue) Peek(ctx context.Context) iter.Seq2[Peeked, error] {
	return func(yield func(Peeked, error) bool) {
		err := q.ready(ctx, nil)
		if err == nil && q.peeker == nil {
			err = ErrUnsupported
		}
		if err != nil {
			yield(Peeked{}, q.fail("peek", err))
			return
		}
		for m, err := range q.peeker.Peek(ctx, q.name) {
			if err != nil {
				yield(Peeked{}, q.fail("peek", err))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// Stats counts the queue's messages.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	err := q.ready(ctx, nil)
	var st Stats
	if err == nil {
		st, err = q.d.Stats(ctx)
	}
	if err != nil {
		return Stats{}, q.fail("stats", err)
	}
	return st, nil
}

// A Subscription waits for events of a topic; see [Store.Listen]. Close it.
type Subscription struct {
	d    driver.Subscription // nil: nothing rings
	most int
}

// Rings is a channel of capacity 1 that gets a value when something may have happened. Rings that nobody takes are
// folded into one. A ring may come late, twice, for nothing, or (rarely) not at all. The channel is nil where nothing
// rings.
func (s *Subscription) Rings() <-chan struct{} {
	if s.d == nil {
		return nil
	}
	return s.d.Rings()
}

// Claim asks for messages that will be sent to the topic's queue: up to max of them are received for this caller as
// they are written, for visibility. ready is closed when some have come, and no more come then.
//
// take ends the claim and must be called. It returns the messages that have come, perhaps none, and a time, by this
// process's clock, at or somewhat before the beginning of their visibility. It may wait for a transaction under way:
// if ctx ends first, messages of that transaction stay hidden until their visibility ends. ok is false where the
// store can't do this; then there is nothing to take.
func (s *Subscription) Claim(max int, visibility time.Duration) (ready <-chan struct{}, take func(context.Context) ([]Delivery, time.Time), ok bool) {
	if s.d == nil || checkReceive(max, visibility) != nil {
		return nil, nil, false
	}
	ready, take = s.d.Claim(min(max, s.most), visibility)
	return ready, take, take != nil
}

// Close ends the subscription. Closing twice is harmless.
func (s *Subscription) Close() {
	if s.d != nil {
		s.d.Close()
	}
}
