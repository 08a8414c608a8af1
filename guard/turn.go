package guard

import (
	"context"

	"github.com/millrace-go/millrace/worker"
)

// Turn pauses a queue while the breaker is open. Then nothing is received, and messages that wait are handed back. When
// a probe is due, one message is received, and its call is the probe. It is for queues whose handlers all call the
// service. Without a Turn, the calls of a queue are refused while the breaker is open, and each hands its message back.
//
// Several queues may have the Turn of one guard, and one queue those of several guards, by worker.Turns.
//
//	worker.QueueConfig{Turn: smtp.Turn}
func (g *Guard) Turn(_ context.Context, c worker.Consumer) (worker.Turn, error) {
	if g.fault != nil {
		return nil, g.fault
	}
	if c.Logger != nil {
		g.log.CompareAndSwap(nil, c.Logger)
	}
	return turn{g.breaker, c.Concurrency}, nil
}

// turn is a consumer's view of a breaker. It holds nothing.
type turn struct {
	breaker *breaker
	most    int // handlers at a time, which the ramp doesn't raise; 0: not known
}

func (t turn) Now() (worker.Limits, <-chan struct{}) {
	limits, changed := t.breaker.limits()
	if t.most > 0 {
		limits.Concurrency, limits.MaxInHand = min(limits.Concurrency, t.most), min(limits.MaxInHand, t.most)
	}
	return limits, changed
}

func (turn) Leave(context.Context) error { return nil }
