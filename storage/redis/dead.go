package redis

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/storage/redis/internal/engine"
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
		now, err := s.silent(ctx)
		if err != nil || s.ear.away() { // whoever has no connection may be where this process is, too
			silent = nil
			continue
		}
		dead := slices.DeleteFunc(slices.Clone(now), func(p string) bool { return !slices.Contains(silent, p) })
		silent = now
		if len(dead) == 0 {
			continue
		}
		reply, err := s.e.Ask(ctx, engine.Release, append([]string{strconv.Itoa(claimTrust)}, dead...)...)
		if err == nil && reply.At(3).Int() > 0 {
			log.Warn("redis: a process has died, so its messages are receivable again", "store", s.cfg.place(), "messages", reply.At(3).Int())
		}
	}
}

// silent names the processes that hold messages and have no connection. This process has one, unless it can't tell.
func (s *store) silent(ctx context.Context) ([]string, error) {
	reply, err := s.e.Ask(ctx, engine.Silent)
	if err != nil {
		return nil, err
	}
	var names []string
	list := reply.At(3).List()
	for i := range list {
		names = append(names, list.At(i).Text())
	}
	return names, nil
}
