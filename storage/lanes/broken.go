package lanes

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const retryTime = 10 * time.Second // for the call that asks a lane that has failed

// retrier asks lanes that fail while another one answers. The others go on without them. One call at a time asks such a
// lane for one message, and nobody waits for that call.
type retrier struct {
	roster *roster
	stash  *stash
	bell   *bell
	calls  sync.WaitGroup
}

// begin asks lanes that have failed, beside the others.
func (x *retrier) begin(ctx context.Context, limit *limit, visibility time.Duration) {
	for _, l := range x.roster.retries(limit) {
		x.calls.Go(func() { x.retry(context.WithoutCancel(ctx), l, visibility) })
	}
}

// fails notes that a lane has failed.
func (x *retrier) fails(l *lane, err error) {
	time.AfterFunc(x.roster.failed(l, err), x.bell.ring) // somebody looks again then
}

// retry asks a lane that has failed.
func (x *retrier) retry(ctx context.Context, l *lane, visibility time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(visibility/2, retryTime))
	defer cancel()
	began := time.Now()
	ds, err := l.q.Receive(ctx, 1, visibility)
	for _, d := range ds {
		x.stash.keep(stashed{l, d, began.Add(visibility / 2)})
	}
	if err != nil {
		x.fails(l, fmt.Errorf("lane %s: %w", l.name, err))
	} else {
		x.roster.works(l)
	}
	x.bell.ring()
}
