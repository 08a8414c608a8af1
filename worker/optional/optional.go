// Package optional lets queues wait while a program leaves out work.
//
//	var level throttle.Level // set by an operator
//	worker.Config{Queues: map[string]worker.QueueConfig{
//		"recommendations": {Limiter: optional.From(&level, 1)},
//	}}
//
// Programs of package host have it for each queue that handlers.Optional names, by the level in their live settings.
//
// # Laws
//
//   - While the level is at the queue's or above, no message is taken off the queue, and the store isn't asked for any.
//     Messages can be sent to the queue and wait in it.
//   - Messages that wait in the worker when the level rises are handed back, and handlers that run finish. That costs
//     no attempt.
//   - When the level falls below the queue's, it is consumed at once.
//   - Other queues don't notice.
//
// It stores nothing, and costs no request.
package optional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

// From returns the limiter of a queue that waits from some level on, 1 to 3. With another level, or without a Level,
// the worker doesn't start.
func From(level *throttle.Level, from int) worker.OpenLimiter {
	return func(_ context.Context, c worker.Consumer) (worker.Limiter, error) {
		switch {
		case level == nil:
			return nil, errors.New("optional: there is no level")
		case from == 0 || throttle.CheckLevel(from) != nil:
			return nil, fmt.Errorf("optional: queue %s waits from level %d; want 1 to %d", c.Queue, from, throttle.MostLevel)
		}
		return &limiter{level: level, from: from, log: c.Logger}, nil
	}
}

// limiter is a consumer's view of the level.
type limiter struct {
	level *throttle.Level
	from  int
	log   *slog.Logger
	waits bool // the last answer said so; of the one goroutine that asks
}

func (t *limiter) Now() (worker.Limits, <-chan struct{}) {
	level, changed := t.level.Watch()
	if waits := level >= t.from; waits != t.waits {
		t.waits = waits
		event := "queue is not optional any more at this level"
		if waits {
			event = "queue is optional at this level, and waits"
		}
		if t.log != nil {
			t.log.Info(event, "level", level, "from", t.from)
		}
	}
	return worker.Limits{Pause: t.waits}, changed
}

func (*limiter) Leave(context.Context) error { return nil }
