package guard

import (
	"context"

	"github.com/millrace-go/millrace/worker"
)

// Turn pauses a queue while the breaker is open. Then nothing is received, and messages that wait are handed back. When a
// probe is due, one message is received, and it is the probe. It is for the queues whose handlers call the service; a
// queue that also has others should leave its guarded calls to a queue of their own. Without it, calls are refused
// while the breaker is open, and each hands its message back.
//
//	worker.QueueConfig{Turn: smtp.Turn}
func (g *Guard) Turn(_ context.Context, c worker.Consumer) (worker.Turn, error) {
	if g.fault != nil {
		return nil, g.fault
	}
	if c.Logger != nil {
		g.log.CompareAndSwap(nil, c.Logger)
	}
	return turn{g.breaker}, nil
}

// turn is a consumer's view of a breaker. It has nothing of its own.
type turn struct{ breaker *breaker }

func (t turn) Now() (worker.Limits, <-chan struct{}) { return t.breaker.limits() }
func (t turn) Leave(context.Context) error           { return nil }
