package worker

import (
	"context"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/millrace-go/millrace/handlers"
)

const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// RetryDelay is the default time to the next attempt: 1 second, doubled with each failed attempt up to 5 minutes,
// more or less up to a fifth. What is more or less follows from the message's ID, so that messages that failed
// together don't come back together, and the same question always has the same answer.
func RetryDelay(failed int, id string) time.Duration {
	b := backoff.ExponentialBackOff{InitialInterval: retryFirst, Multiplier: 2, MaxInterval: retryMost, Clock: backoff.SystemClock}
	b.Reset()
	d := retryFirst
	for range min(failed, 32) {
		d = b.NextBackOff()
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	h.Write([]byte{byte(failed)})
	spread := float64(h.Sum64()%1000)/1000*0.4 - 0.2
	return d + time.Duration(spread*float64(d))
}

// retryDelay asks Config.RetryDelay, which is the user's.
func (c *consumer) retryDelay(ctx context.Context, failed int, id string) (d time.Duration) {
	handlers.Guard(1, func(int) { d = c.cfg.RetryDelay(failed, id) }, func(_ int, err error) {
		d = RetryDelay(failed, id)
		c.log.LogAttrs(ctx, slog.LevelError, "Config.RetryDelay fails; the default delay is taken", slog.String("id", id), slog.Int("failed", failed), slog.Any("error", err))
	})
	return d
}
