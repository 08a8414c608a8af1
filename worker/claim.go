package worker

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/storage"
)

// A claim is what a worker knows of whose a message is. The store has hidden the message for this worker: for the
// visibility, from the beginning of the last call that received or extended the message. A caller that records the
// message's end settles the claim first, so that no renewal replaces the receipt meanwhile.
type claim struct {
	calls    callLock // guards the fields below; held during a renewal, so that no call uses a receipt that is being replaced
	receipt  storage.Receipt
	owned    time.Time    // start of the last call that gave us the message
	settling bool         // its end is being recorded: no renewal
	over     bool         // a caller has undertaken to record its end
	lost     bool         // another worker has it, or may have it
	own      *right.Right // the handler's context; nil before it has begun
}

func newClaim(receipt storage.Receipt, since time.Time) claim {
	return claim{calls: make(callLock, 1), receipt: receipt, owned: since}
}

// callLock is a mutex that may be held during a request. It is a channel so that waiting for it counts as waiting for a
// request: in virtual time, waiting for a sync.Mutex stops the clock.
type callLock chan struct{}

func (l callLock) lock()   { l <- struct{}{} }
func (l callLock) unlock() { <-l }

// settle stops renewal, and returns the newest receipt.
func (c *claim) settle() storage.Receipt {
	c.calls.lock()
	defer c.calls.unlock()
	c.settling = true
	return c.receipt
}

// prove stops renewal and makes sure that the message is ours, for the visibility, from now.
func (c *claim) prove(ctx context.Context, q *storage.Queue, visibility time.Duration) error {
	began := time.Now()
	receipt, err := q.Extend(ctx, c.settle(), visibility)
	if err != nil {
		return err
	}
	c.calls.lock()
	defer c.calls.unlock()
	c.receipt, c.owned = receipt, began
	return nil
}

// resume lets renewal go on after settle, where the message was not deleted.
func (c *claim) resume() {
	c.calls.lock()
	defer c.calls.unlock()
	c.settling = false
}

// end reports whether the caller is the one to record the message's end. A handler that would not stop may return after
// its message was handed back.
func (c *claim) end() bool {
	c.calls.lock()
	defer c.calls.unlock()
	first := !c.over
	c.over = true
	return first
}

// isLost reports that the message has been given up.
func (c *claim) isLost() bool {
	c.calls.lock()
	defer c.calls.unlock()
	return c.lost
}

// start gives a handler its context, which ends with the message's ownership. It refuses a message that is lost.
func (c *claim) start(ctx context.Context, limit time.Duration) (context.Context, bool) {
	c.calls.lock()
	defer c.calls.unlock()
	if c.lost || time.Since(c.owned) >= limit {
		return nil, false
	}
	c.own = right.Watched(ctx, c.owned.Add(limit), func(own *right.Right) { own.End(ErrOwnershipLost) })
	return c.own, true
}

// ours reports that no other worker can have the message yet.
func (c *claim) ours(limit time.Duration) bool {
	c.calls.lock()
	defer c.calls.unlock()
	return !c.lost && time.Since(c.owned) < limit
}

// drop gives the message up: another worker has it, or may have it.
func (c *claim) drop() {
	c.lost = true
	if c.own != nil {
		c.own.End(ErrOwnershipLost)
	}
}

// renew extends the visibility if it is due. It reports whether the message has just been lost.
func (c *claim) renew(ctx context.Context, q *storage.Queue, visibility, due, limit time.Duration) (lost bool, err error) {
	c.calls.lock()
	defer c.calls.unlock()
	if c.settling || c.lost || time.Since(c.owned) < due {
		return false, nil
	}
	began := time.Now()
	// The timeout is so short that a store that hangs leaves time for another try.
	ctx, cancel := context.WithTimeout(ctx, min(limit-began.Sub(c.owned), visibility/6))
	defer cancel()
	receipt, err := q.Extend(ctx, c.receipt, visibility)
	switch {
	case err == nil && (c.own == nil || c.own.Prove(began.Add(limit))):
		c.receipt, c.owned = receipt, began
		return false, nil
	case err == nil, isStale(err) || time.Since(c.owned) >= limit:
		c.drop()
		return true, err
	}
	return false, err
}
