package doorbell

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const (
	tableName = "doorbells"
	partition = "listeners"
	mostRows  = 1000 // more listeners than this are not rung

	callTimeout  = 30 * time.Second // of a request to the table
	clockAhead   = 5 * time.Minute  // a listener's clock may be this far ahead of a sender's
	leftAlone    = time.Hour        // an invalid row is removed after this time
	withdrawTime = 2 * time.Second  // the longest time that Close spends on removing the row
)

// pace holds the intervals of the store's work; tests have shorter ones.
type pace struct {
	settle    time.Duration // how long a change of the queues waits for others before it is published
	renew     time.Duration // how often a row is written
	valid     time.Duration // how long a row is valid
	retry     time.Duration // when a failed write is repeated, and the least time from a write to the next one after a sign
	readEvery time.Duration // how often a busy sender reads the rows
	readSoon  time.Duration // likewise when it knows no listener of a queue
}

// trust is how long a row that isn't written again is believed.
func (p pace) trust() time.Duration { return p.renew * 3 / 2 }

func usualPace() pace {
	return pace{settle: 50 * time.Millisecond, renew: 4 * time.Minute, valid: 10 * time.Minute, retry: 30 * time.Second, readEvery: time.Minute, readSoon: 10 * time.Second}
}

// A directory is the table with the listeners' rows, and what is known of this process's own row.
type directory struct {
	table     *storage.Table // in the inner store
	id        string         // names this process's row
	pace      pace
	clock     clock
	wall      func() time.Time // without a monotonic reading
	receivers *pubsub.Receivers
	gone      chan struct{} // of capacity 1: there is a sign that the row is gone

	mu        sync.Mutex
	published bool          // this process may have a row
	rowSince  time.Duration // since when it certainly has one; 0: it may have none
}

// A listener is a process that can be rung.
type listener struct {
	row
	id      string
	etag    storage.ETag
	changed time.Duration // when this state of its row was first seen
	alive   bool          // it is probably alive
}

func (l *listener) subscribes(topic string) bool {
	return l.alive && slices.Contains(l.Received, topic)
}

func (l *listener) listensTo(queue string) bool { return l.alive && slices.Contains(l.Queues, queue) }

// read returns the other processes' rows, and when it began. It notes whether this process's row still exists.
func (d *directory) read(ctx context.Context) (list []listener, began time.Duration, err error) {
	began = d.clock.now()
	list, own, err := d.rows(ctx)
	if err == nil && !own {
		d.missRow(began)
	}
	return list, began, err
}

// rows returns the other processes' rows. own reports that this process's row is among them, or may be beyond the
// limit.
func (d *directory) rows(ctx context.Context) (list []listener, own bool, err error) {
	n := 0
	for r, err := range d.table.Query(ctx, partition, storage.RowRange{Limit: mostRows}) {
		if err != nil {
			return nil, false, err
		}
		n++
		own = own || r.Key == d.id || n == mostRows
		if x, ok := readRow(r.Data); ok && r.Key != d.id {
			list = append(list, listener{row: x, id: r.Key, etag: r.ETag})
		}
	}
	return list, own, nil
}

// judge notes which listeners are probably alive. A row must be valid by this machine's clock. It must also have
// been renewed, whatever the clocks say, if it has been known for longer than a renewal takes.
func judge(list, known []listener, now time.Duration, wall time.Time, p pace) []listener {
	for i := range list {
		l := &list[i]
		l.changed = now
		for _, k := range known {
			if k.id == l.id && k.etag == l.etag {
				l.changed = k.changed
			}
		}
		l.alive = wall.Before(l.until()) && l.until().Before(wall.Add(p.valid+clockAhead)) && now-l.changed < p.trust()
	}
	return list
}

// rowMayBeGone makes the publisher write the row again after a sign that the row is gone. It makes no request itself.
func (d *directory) rowMayBeGone() {
	select {
	case d.gone <- struct{}{}:
	default:
	}
}

// missRow notes that this process's row was missing in a read that began at that time. So publications of others may
// have been lost.
func (d *directory) missRow(began time.Duration) {
	d.mu.Lock()
	published, there := d.published, d.rowSince > 0 && d.rowSince < began
	if there {
		d.rowSince = 0
	}
	d.mu.Unlock()
	if published {
		d.rowMayBeGone() // before a call of Subscribe that follows the loss
	}
	if there {
		d.receivers.Lose()
	}
}

// write writes this process's row, or removes it when no consumer waits for a queue and no receiver is there.
func (d *directory) write(ctx context.Context, r row) error {
	if len(r.Queues)+len(r.Received) == 0 {
		return d.withdraw(ctx)
	}
	r.Version, r.Until = version, d.wall().Add(d.pace.valid).Unix()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.published = true // also after a failure: the row may have been written
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = d.table.Put(ctx, partition, d.id, data, storage.Condition{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.rowSince == 0 {
		d.rowSince = d.clock.now()
	}
	return err
}

// withdraw removes the row, if there may be one.
func (d *directory) withdraw(ctx context.Context) error {
	d.mu.Lock()
	published := d.published
	d.published, d.rowSince = false, 0
	d.mu.Unlock()
	if !published {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	err := d.table.Delete(ctx, partition, d.id, storage.Condition{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// tidy removes the rows of crashed processes. If it fails, the next process to start removes them.
func (d *directory) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, _, err := d.rows(ctx)
	if err != nil {
		return
	}
	for _, l := range list {
		if time.Since(l.until()) > leftAlone {
			if d.table.Delete(ctx, partition, l.id, storage.Condition{IfMatch: l.etag}) != nil {
				return
			}
		}
	}
}
