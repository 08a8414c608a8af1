// Package active lets a few workers consume a queue at a time, while the others stand by.
//
//	worker.Config{Queues: map[string]worker.QueueConfig{
//		"orders": {Limiter: active.Workers(1)}, // in every worker that consumes the queue
//	}}
//
// It is for queues whose messages meet in few documents: many workers lose races against one another there, and fold
// less. It is not for handlers that wait, which want many workers. It saves races, and no promise depends on it.
//
// # How it works
//
// The workers of a queue are members of a group of package coord/members, which needs no leader. Membership costs a
// dozen requests a minute for each queue and worker. Chance decides which workers are active, for each queue by itself.
//
// All workers of a queue must use this package, with the same number. Workers that know other kinds (an older version)
// don't count: a worker hands back messages of a kind that it doesn't know, so such workers form a group of their own.
//
// Another worker becomes active
//
//   - within some 10 seconds after one that stops,
//   - within some 40 seconds after one that dies,
//   - within 20 seconds after StuckAfter after one that can't receive any more, because its handlers hang or the store
//     fails. It stands by again when it has room for messages.
//
// A worker that joins may take a queue over, and now and then more workers are active than asked for. The worker that
// leaves a queue to another hands back the messages that wait, and finishes those that run, in its own time. When it
// becomes active again meanwhile, they count in its Concurrency.
package active

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/members"
	"github.com/millrace-go/millrace/worker"
)

const maxBeat = 10 * time.Second

// Workers lets n workers consume a queue at a time; n must be positive.
func Workers(n int) worker.OpenLimiter {
	return func(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
		if n < 1 {
			return nil, fmt.Errorf("active: %d workers at a time; want a positive number", n)
		}
		t := &limiter{ctx: ctx, consumer: c}
		m, err := members.Join(c.Store, group(c), members.Config{
			Name: c.Worker, Active: n, Logger: c.Logger, Fit: t.fit,
			Beat: min(max(c.Visibility/3, time.Second), maxBeat).Truncate(time.Millisecond),
		})
		if err != nil {
			return nil, fmt.Errorf("active: %w", err)
		}
		t.member = m
		t.log(slog.LevelInfo, "worker stands by for a queue")
		return t, nil
	}
}

// group names the workers that share a queue.
func group(c worker.Consumer) string {
	kinds := make([]string, len(c.Kinds))
	for i, k := range c.Kinds {
		kinds[i] = string(k)
	}
	sum := sha256.Sum256([]byte(strings.Join(kinds, "\n")))
	return "worker/" + c.Queue + "/" + hex.EncodeToString(sum[:8])
}

// limiter is a worker's membership.
type limiter struct {
	ctx      context.Context // for log lines
	consumer worker.Consumer
	member   *members.Member
	active   atomic.Bool // when it was last asked
	unfit    bool        // the last beat was withdrawn; only the member's goroutine uses it
}

func (t *limiter) Now() (worker.Limits, <-chan struct{}) {
	active, changed := t.member.Active()
	if t.active.Swap(active) != active {
		if active {
			t.log(slog.LevelInfo, "worker becomes active for a queue")
		} else {
			t.log(slog.LevelInfo, "worker leaves a queue to others, and stands by")
		}
	}
	return worker.Limits{Pause: !active}, changed
}

func (t *limiter) Leave(ctx context.Context) error {
	if err := t.member.Leave(ctx); err != nil {
		return fmt.Errorf("active: other workers take over when they miss this one: %w", err)
	}
	return nil
}

// fit is called before each beat.
func (t *limiter) fit() bool {
	fit := t.consumer.Fit()
	if !fit && !t.unfit {
		t.log(slog.LevelWarn, "nothing received for longer than StuckAfter; another worker may take the queue over")
	}
	t.unfit = !fit
	return fit
}

func (t *limiter) log(level slog.Level, event string) {
	t.consumer.Logger.LogAttrs(t.ctx, level, event, slog.String("worker", t.consumer.Worker))
}
