package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// An Info describes a lease to people. Its times are by the clocks of those who wrote them, so nothing may be decided
// by them.
type Info struct {
	Name    string
	Held    bool   // by a process that may have died
	Holder  string // the present or last one
	Fence   int64  // of that holder
	TTL     time.Duration
	Since   time.Time // when that holder got it
	Next    string    // the lease is kept for this holder by a hand-over
	Broken  *Broken   // the last break; of the present holder if the fences are equal
	Waiters []Waiter  // those that have waited for more than a poll; see [List]
}

// A Waiter is a process that waits for a lease.
type Waiter struct {
	Holder string // its Config.Holder
	Since  time.Time
	Seen   time.Time // it refreshes this once per TTL of its own
	Stale  bool      // not refreshed for three times that: probably dead, or its clock differs much from this one's
}

// State reads one lease, without its waiters. A lease that never was is storage.ErrNotFound.
func State(ctx context.Context, store *storage.Store, name string) (Info, error) {
	err := storecall.CheckStore(store)
	var d document
	if err == nil {
		d, _, err = blobOf(store, name, Config{}.ttl()).get(ctx, "")
	}
	if err != nil {
		return Info{}, fmt.Errorf("lease: state of %s: %w", storage.Quote(name), err)
	}
	return infoOf(name, d), nil
}

func infoOf(name string, d document) Info {
	return Info{
		Name: name, Held: d.ID != "", Holder: d.Holder, Fence: d.Fence, TTL: time.Duration(d.TTL) * time.Millisecond,
		Since: d.Since, Next: d.Next, Broken: d.Broken,
	}
}

// List yields the leases whose names keep wants, with their waiters, by name; nil wants all. Those of [Update] are
// named "update/CONTAINER/KEY", and may be many. A blob that is no lease is yielded as its name with an error, and the
// list goes on; any other error is the last. It costs a request for each of these leases, one for each page of blobs
// and of waiters, and one for each row that a waiter hasn't refreshed for an hour, and for twelve times its TTL: List
// deletes such rows.
func List(ctx context.Context, store *storage.Store, keep func(name string) bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := storecall.CheckStore(store)
		var waiters map[string][]Waiter
		if err == nil {
			waiters, err = listWaiters(ctx, store)
		}
		if err != nil {
			yield(Info{}, fmt.Errorf("lease: list: %w", err))
			return
		}
		for b, err := range store.Blobs(container).List(ctx, "") {
			var info Info
			if err == nil && keep != nil && !keep(b.Key) {
				continue
			}
			if err == nil {
				info, err = State(ctx, store, b.Key)
			}
			switch {
			case errors.Is(err, storage.ErrNotFound): // deleted by hand meanwhile
			case errors.Is(err, storage.ErrInvalid):
				if !yield(Info{Name: b.Key}, err) {
					return
				}
			case err != nil:
				yield(Info{}, fmt.Errorf("lease: list: %w", err))
				return
			default:
				if info.Waiters = waiters[b.Key]; !yield(info, nil) {
					return
				}
			}
		}
	}
}

// listWaiters reads the rows of waiters by their leases. It deletes rows that are good for nothing.
func listWaiters(ctx context.Context, store *storage.Store) (map[string][]Waiter, error) {
	table, all := store.Table(waiterTable), map[string][]Waiter{}
	var dead []string
	for row, err := range table.Query(ctx, waiterPartition, storage.RowRange{}) {
		if err != nil {
			return nil, err
		}
		var w waiterRow
		if decode(row.Data, &w) != nil {
			continue // of a newer version
		}
		idle := time.Since(w.Seen)
		ttl := time.Duration(w.TTL) * time.Millisecond
		if idle > max(time.Hour, 12*min(ttl, maxTTL)) { // a live one whose clock is so far behind writes its row again
			dead = append(dead, row.Key)
			continue
		}
		all[w.Lease] = append(all[w.Lease], Waiter{Holder: w.Holder, Since: w.Since, Seen: w.Seen, Stale: idle > 3*ttl})
	}
	_ = table.DeleteRows(ctx, waiterPartition, dead) // of a reader without the right to write: they stay
	return all, nil
}
