package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

const (
	onceTable     = "once"
	onceLease     = 30 * time.Second // how long a second copy waits for a first one that says nothing more
	onceRetention = 30 * 24 * time.Hour
	onceSweep     = 100 // rows forgotten at a time
)

// onceMark is the row that tells of an effect: begun, or done.
type onceMark struct {
	Done  bool      `json:"done"`
	Until time.Time `json:"until,omitzero"` // of one begun: when a second copy may take over
}

// Once guards a reaction whose effect should not be repeated: an e-mail, a payment. It notes each message that
// group has handled, by its ID, before and after f. A copy of a message done is skipped; a copy of one that is
// being handled waits. When f fails the note is taken back, and the next attempt begins at once.
//
// One gap remains that no guard can close from this side: if the process dies after the effect and before the
// note, the effect is repeated once f's lease (30 seconds) ends. Give the outside world the message's ID where
// it can recognise a repeat; channel.Handled tells it.
//
// Notes are kept for 30 days, those of IDs that carry no time for ever.
func Once[E channel.Message](store storage.Store, group string, f func(context.Context, E) error) func(context.Context, E) error {
	table := store.Table(onceTable)
	var sinceSweep atomic.Int64
	return func(ctx context.Context, m E) error {
		e, _, ok := channel.Handled(ctx)
		if !ok {
			return errors.New("handlers: Once outside of a handler's context")
		}
		key := onceKey(e.ID, group)
		etag, err := onceBegin(ctx, table, group, key)
		if err != nil || etag == "" {
			return err
		}
		if err := f(ctx, m); err != nil {
			// Not under ctx, which may be what ended f. If it fails the lease ends by itself.
			c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = table.Delete(c, group, key, storage.Condition{IfMatch: etag})
			return err
		}
		if err := oncePut(ctx, table, group, key, onceMark{Done: true}, storage.Condition{}, nil); err != nil {
			return err
		}
		if sinceSweep.Add(1)%onceSweep == 0 {
			return onceForget(ctx, table, group)
		}
		return nil
	}
}

// onceBegin notes the beginning and returns the note's ETag, "" if the effect is done already.
func onceBegin(ctx context.Context, t storage.Table, group, key string) (storage.ETag, error) {
	var etag storage.ETag
	begun := onceMark{Until: time.Now().Add(onceLease)}
	err := oncePut(ctx, t, group, key, begun, storage.Condition{IfAbsent: true}, &etag)
	if !errors.Is(err, storage.ErrExists) {
		return etag, err
	}
	row, err := t.Get(ctx, group, key)
	if errors.Is(err, storage.ErrNotFound) {
		return "", Later(time.Second, "the first copy of this message has just failed")
	}
	if err != nil {
		return "", err
	}
	var mark onceMark
	if err := json.Unmarshal(row.Data, &mark); err != nil {
		return "", fmt.Errorf("handlers: once: row of group %s: %w", group, err)
	}
	if mark.Done {
		return "", nil
	}
	if wait := time.Until(mark.Until); wait > 0 {
		return "", Later(wait, "a copy of this message is being handled")
	}
	err = oncePut(ctx, t, group, key, begun, storage.Condition{IfMatch: row.ETag}, &etag)
	if storage.LostRace(err) {
		return "", Later(time.Second, "a copy of this message is being handled")
	}
	return etag, err
}

func oncePut(ctx context.Context, t storage.Table, group, key string, m onceMark, cond storage.Condition, etag *storage.ETag) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	got, err := t.Put(ctx, group, key, b, cond)
	if etag != nil {
		*etag = got
	}
	return err
}

// onceKey sorts the notes of IDs that carry a time by it, and the others behind them.
func onceKey(id, group string) string {
	prefix := "t-"
	if _, timed := channel.IDTime(id); !timed {
		prefix = "u-"
	}
	return prefix + channel.DerivedID(id, "once", group)
}

func onceForget(ctx context.Context, t storage.Table, group string) error {
	ms := fmt.Sprintf("%012x", time.Now().Add(-onceRetention).UnixMilli())
	for row, err := range t.Query(ctx, group, storage.RowRange{From: "t-", To: "t-" + ms[:8] + "-" + ms[8:], Limit: 2 * onceSweep}) {
		if err != nil {
			return err
		}
		if err := t.Delete(ctx, group, row.Key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
