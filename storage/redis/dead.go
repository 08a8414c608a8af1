package redis

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	// deadPause is how long the connection of a process must be gone at least. A process whose connection was cut opens
	// a new one at once.
	deadPause = 2 * time.Second

	// settled is how long the own connection must be there before others are judged. After a restart or a failover the
	// others may come later: they may wait in a dial (5 s), and learn of the new master at their next look at the
	// sentinels (5 s). The rest is for the pause between two dials and for a busy machine.
	settled = 12 * time.Second

	// claimTrust is how often a message may have been delivered and still be released with the claims of a dead process.
	// A message that was delivered more often may be what kills, and restarts are quick.
	claimTrust = 3
)

// A releaser makes the messages of dead processes receivable.
type releaser struct {
	s      *store
	log    *slog.Logger
	silent []string // who had no connection at the last look

	settled time.Duration // Defaults to settled
}

// run looks again and again which processes hold messages and have no connection for subscriptions any more, and makes
// the messages receivable of those that had none twice. The server closes the connection of a process that dies. A
// process that stands still keeps the connection, and so its messages.
func (r *releaser) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(deadPause):
			r.look(ctx)
		}
	}
}

func (r *releaser) look(ctx context.Context) {
	before := r.silent
	r.silent = nil
	if r.s.ear.heard() < cmp.Or(r.settled, settled) { // who has no connection may be where this process was, too
		return
	}
	now, err := r.s.e.Silent(ctx)
	if err != nil {
		return
	}
	r.silent = now
	dead := slices.DeleteFunc(slices.Clone(now), func(p string) bool { return !slices.Contains(before, p) })
	if len(dead) == 0 || !r.s.present(ctx) {
		return
	}
	// After an error the processes are found again.
	if n, _ := r.s.e.Release(ctx, claimTrust, dead); n > 0 {
		r.log.Warn("redis: a process has died, so its messages are receivable again", "store", r.s.cfg.place(), "messages", n)
	}
}

// present reports that the server that answers this process is the one that its connection for subscriptions goes to.
// During a failover calls may reach the new master while that connection still goes to the old one.
func (s *store) present(ctx context.Context) bool {
	r, err := s.conn.Do(ctx, "PUBSUB", "NUMSUB", s.e.Key(processChannel+s.e.Process()))
	return err == nil && r.List().At(1).Int() > 0
}
