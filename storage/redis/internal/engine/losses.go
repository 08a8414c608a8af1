package engine

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Losses returns how many acknowledged changes are known to be lost, and when the last loss was found: what the store
// has noted, and what this process knows alone, because nothing has been changed since.
func (e *Engine) Losses(ctx context.Context) (lost int64, at time.Time, err error) {
	known := e.caller.known.Load() // before the question: the store's number is no smaller then, unless changes are lost
	r, err := e.Read(ctx, "HMGET", e.caller.prefix, "n:"+e.caller.process, "lost", "lostat")
	if err != nil {
		return 0, time.Time{}, err
	}
	own := r.List()
	lost, at = max(own.At(1).Int(), e.Lost()), Time(own.At(2).Int())
	count := own.At(0).Int()
	if own.At(0).IsNil() && known > 0 { // its connection was away for long, or all that it changed is gone
		r, err := e.Read(ctx, "HGET", e.Key(":X"), e.caller.process)
		if err != nil {
			return 0, time.Time{}, err
		}
		kept, _, _ := strings.Cut(r.Text(), "@")
		count, _ = strconv.ParseInt(kept, 10, 64) // nothing is 0
	}
	if fresh := known - count; fresh > 0 {
		lost, at = lost+fresh, Time(e.Now())
	}
	return lost, at, nil
}
