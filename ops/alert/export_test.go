package alert

import (
	"context"
	"time"
)

// RunAt is Run at another pace.
func RunAt(ctx context.Context, cfg Config, every, ttl time.Duration) error {
	return run(ctx, cfg, pace{every, ttl})
}
