package limiters

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
			return nil, fmt.Errorf("limiters: %d workers at a time; want a positive number", n)
		}
		t := &workersLimiter{ctx: ctx, consumer: c}
		m, err := members.Join(c.Store, group(c), members.Config{
			Name: c.Worker, Active: n, Logger: c.Logger, Fit: t.fit,
			Beat: min(max(c.Visibility/3, time.Second), maxBeat).Truncate(time.Millisecond),
		})
		if err != nil {
			return nil, fmt.Errorf("limiters: %w", err)
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

// A workersLimiter is a worker's membership.
type workersLimiter struct {
	ctx      context.Context // for log lines
	consumer worker.Consumer
	member   *members.Member
	active   atomic.Bool // when it was last asked
	unfit    bool        // the last beat was withdrawn; only the member's goroutine uses it
}

func (t *workersLimiter) Now() (worker.Limits, <-chan struct{}) {
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

func (t *workersLimiter) Leave(ctx context.Context) error {
	if err := t.member.Leave(ctx); err != nil {
		return fmt.Errorf("limiters: other workers take over when they miss this one: %w", err)
	}
	return nil
}

// fit is called before each beat.
func (t *workersLimiter) fit() bool {
	fit := t.consumer.Fit()
	if !fit && !t.unfit {
		t.log(slog.LevelWarn, "nothing received for longer than StuckAfter; another worker may take the queue over")
	}
	t.unfit = !fit
	return fit
}

func (t *workersLimiter) log(level slog.Level, event string) {
	t.consumer.Logger.LogAttrs(t.ctx, level, event, slog.String("worker", t.consumer.Worker))
}
