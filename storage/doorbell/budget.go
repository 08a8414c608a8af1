package doorbell

import (
	"context"
	"time"
)

const (
	slice     = 100 * time.Millisecond // the period for which worthless counts
	worthless = 1000
)

// A budget bounds the work for worthless datagrams. Those beyond it wait in the socket's buffer, or are lost there.
type budget struct {
	end  time.Duration // of the current slice
	left int
}

// spend counts one datagram, and returns how long to wait before the next.
func (b *budget) spend(now time.Duration) time.Duration {
	if now >= b.end {
		b.end, b.left = now+slice, worthless
	}
	b.left--
	if b.left > 0 {
		return 0
	}
	return b.end - now
}

// pay counts one worthless datagram, and waits if there were too many. It returns false when ctx ends.
func (b *budget) pay(ctx context.Context, now time.Duration) bool {
	wait := b.spend(now)
	if wait <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
