package lease

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Waiting candidates have a row each in one partition of this table, so that a listing is one query. A row that can't
// be written or deleted harms nothing: only [List] reads it.
const (
	waiterTable     = "lease-waiters"
	waiterPartition = "waiters"
)

// topic is where a release is told, with the lease's name as data. A hand-over adds "\x00" and the next holder.
const topic = "leases"

// A waiter is the part of a candidate that others see and reach.
type waiter struct {
	polls   int
	told    chan struct{}         // a release was told; of capacity 1
	woken   bool                  // likewise, and the candidate hasn't seen the lease since
	had     bool                  // the candidate has got the lease
	hearing *storage.Registration // nil while nothing is heard
	hide    context.CancelFunc    // ends the row; nil without a row
}

// A waiterRow is a row's data, as JSON. Times are by the waiter's clock, for people.
type waiterRow struct {
	Lease  string    `json:"lease"`
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Seen   time.Time `json:"seen"`
	TTL    int64     `json:"ttl"` // milliseconds
}

// show writes the candidate's row, refreshes it once per TTL, and deletes it when the candidate leaves. It doesn't
// keep the candidate from looking.
func (c *candidate) show(ctx context.Context) {
	ctx, c.hide = context.WithCancel(ctx)
	table, row := c.store.Table(waiterTable), waiterRow{Lease: c.key, Holder: c.cfg.Holder, Since: c.since.UTC(), TTL: c.ttl.Milliseconds()}
	try := func(ctx context.Context, f func(ctx context.Context) error) {
		ctx, cancel := c.limit(ctx)
		defer cancel()
		_ = f(ctx)
	}
	go func() {
		for ok := true; ok; ok = storecall.Sleep(ctx, c.ttl) == nil {
			row.Seen = time.Now().UTC()
			data, err := json.Marshal(row)
			if err != nil {
				return
			}
			try(ctx, func(ctx context.Context) error {
				_, err := table.Put(ctx, waiterPartition, c.id, data, storage.Condition{})
				return err
			})
		}
		try(context.WithoutCancel(ctx), func(ctx context.Context) error {
			return table.Delete(ctx, waiterPartition, c.id, storage.Condition{})
		})
	}()
}

// hear begins to hear of releases where the store can tell of them, and reports whether it has begun just now. Without
// hearing, the candidate polls.
func (c *candidate) hear(ctx context.Context) bool {
	if !c.store.Rings() {
		return false
	}
	first := c.hearing == nil
	if !first {
		select {
		case <-c.hearing.Lost():
			c.hearing.Close()
		default:
			return false
		}
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	hearing, err := c.store.Subscribe(ctx, topic, c.ear)
	if err != nil {
		return false
	}
	c.hearing = hearing
	return first // after a loss the next poll finds what wasn't heard
}

// ear takes one release at a time.
func (c *candidate) ear(data []byte, most int) int {
	if s := string(data); s != c.key && s != c.key+"\x00"+c.cfg.Holder {
		return 0
	}
	if most == 0 {
		return cap(c.told) - len(c.told)
	}
	select {
	case c.told <- struct{}{}:
		return 1
	default:
		return 0
	}
}

// leave ends what others see of the candidate. A release that only this candidate knows of wakes another one: else all
// others would wait for their polls.
func (c *candidate) leave() {
	if c.hearing != nil {
		c.hearing.Close()
	}
	if !c.had && (c.woken || len(c.told) > 0) {
		c.tell(context.Background(), "")
	}
	if c.hide != nil {
		c.hide()
	}
}

// tell wakes one process that waits for the lease. Where that fails, the processes find the lease free when they poll.
func (b leaseBlob) tell(ctx context.Context, to string) {
	if !b.store.Rings() {
		return
	}
	data := b.key
	if to != "" {
		data += "\x00" + to
	}
	ctx, cancel := context.WithTimeout(ctx, min(b.ttl/12, time.Second))
	defer cancel()
	_, _ = b.store.Publish(ctx, topic, []byte(data), true)
}
