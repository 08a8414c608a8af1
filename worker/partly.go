package worker

import (
	"context"
	"log/slog"
	"time"
)

// logPartlyEvery is how often it is logged that a part of a queue fails. Without a failure for twice that, it is over.
const logPartlyEvery = time.Minute

// partly logs that a part of a queue can't be received.
type partly struct {
	last, logged time.Time // the last failure, and the last line; zero: there is none
}

func (p *partly) fails(ctx context.Context, log *slog.Logger, err error) {
	p.last = time.Now()
	if !p.logged.IsZero() && p.last.Sub(p.logged) < logPartlyEvery {
		return
	}
	p.logged = p.last
	log.LogAttrs(ctx, slog.LevelError, "can't receive a part of the queue; the rest goes on", slog.Any("error", err))
}

func (p *partly) works(ctx context.Context, log *slog.Logger) {
	if p.last.IsZero() || time.Since(p.last) < 2*logPartlyEvery {
		return
	}
	*p = partly{}
	log.LogAttrs(ctx, slog.LevelInfo, "can receive all of the queue again")
}
