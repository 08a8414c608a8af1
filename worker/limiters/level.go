package limiters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

// Level returns the limiter of a queue that waits from some level on, 1 to 3. With another level, or without a Level,
// the worker doesn't start.
func Level(level *throttle.Level, from int) worker.OpenLimiter {
	return func(_ context.Context, c worker.Consumer) (worker.Limiter, error) {
		switch {
		case level == nil:
			return nil, errors.New("limiters: there is no level")
		case from == 0 || throttle.CheckLevel(from) != nil:
			return nil, fmt.Errorf("limiters: queue %s waits from level %d; want 1 to %d", c.Queue, from, throttle.MostLevel)
		}
		return &levelLimiter{level: level, from: from, log: c.Logger}, nil
	}
}

// A levelLimiter is a consumer's view of the level.
type levelLimiter struct {
	level *throttle.Level
	from  int
	log   *slog.Logger
	waits bool // the last answer said so; of the one goroutine that asks
}

func (t *levelLimiter) Now() (worker.Limits, <-chan struct{}) {
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

func (*levelLimiter) Leave(context.Context) error { return nil }
