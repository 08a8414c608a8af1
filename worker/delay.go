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

// RetryDelay is the default delay before the next attempt: 1 second, doubled with each failed attempt up to 5 minutes,
// and spread by up to a fifth either way. The spread follows from the message's ID: messages that failed together don't
// come back together, and the same arguments always give the same delay.
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

// retryDelay calls Config.RetryDelay, which is the user's code.
func (c *consumer) retryDelay(ctx context.Context, failed int, id string) (d time.Duration) {
	handlers.Guard("Config.RetryDelay", 1, func(int) time.Duration {
		return c.cfg.RetryDelay(failed, id)
	}, func(_ int, delay time.Duration) {
		d = delay
	}, func(_ int, err error) {
		c.countHang(err)
		d = RetryDelay(failed, id)
		c.log.LogAttrs(ctx, slog.LevelError, "Config.RetryDelay fails; the default delay is taken", slog.String("id", id), slog.Int("failed", failed), slog.Any("error", err))
	})
	return d
}
