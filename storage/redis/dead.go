package redis

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	// deadPause is how long the connection of a process must be gone at least. A process whose connection was cut opens
	// a new one at once.
	deadPause = 2 * time.Second

	// claimTrust is how often a message may have been delivered and still be released with the claims of a dead process.
	// A message that was delivered more often may be what kills, and restarts are quick.
	claimTrust = 3
)

// releaseDeadClaims looks again and again which processes hold messages and have no connection for subscriptions any
// more, and makes the messages receivable of those that had none twice. The server closes the connection of a process
// that dies. A process that stands still keeps the connection, and so its messages.
func (s *store) releaseDeadClaims(ctx context.Context, log *slog.Logger) {
	var silent []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(deadPause):
		}
		now, err := s.e.Silent(ctx)
		if err != nil || s.ear.away() { // whoever has no connection may be where this process is, too
			silent = nil
			continue
		}
		dead := slices.DeleteFunc(slices.Clone(now), func(p string) bool { return !slices.Contains(silent, p) })
		silent = now
		if len(dead) == 0 {
			continue
		}
		// After an error the processes are found again.
		if n, _ := s.e.Release(ctx, claimTrust, dead); n > 0 {
			log.Warn("redis: a process has died, so its messages are receivable again", "store", s.cfg.place(), "messages", n)
		}
	}
}
