package engine

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// Losses returns how many acknowledged changes are known to be lost, and when the last loss was found: what the store
// has noted, and what this process knows alone, because nothing has been changed since.
func (e *Engine) Losses(ctx context.Context) (lost int64, at time.Time, err error) {
	known := e.caller.known.Load() // before the question: the store's number is no smaller then, unless changes are lost
	r, err := e.Read(ctx, "HMGET", e.caller.prefix, "mark", "n:"+e.caller.process, "lost", "lostat")
	if err != nil {
		return 0, time.Time{}, err
	}
	own := r.List()
	if own.At(0).Text() != e.caller.mark {
		return 0, time.Time{}, e.caller.explain(ctx, &client.Refused{Code: "GONE", Text: "GONE the store was wiped or replaced"})
	}
	lost, at = max(own.At(2).Int(), e.Lost()), Time(own.At(3).Int())
	count := own.At(1)
	if count.IsNil() && known > 0 { // its connection was away for long, or all that it changed is gone
		if count, err = e.Read(ctx, "HGET", e.Key(":X"), e.caller.process); err != nil {
			return 0, time.Time{}, err
		}
	}
	if fresh := known - count.Int(); fresh > 0 {
		lost, at = lost+fresh, Time(e.Now())
	}
	return lost, at, nil
}
