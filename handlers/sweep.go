package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// Notes are deleted some time after they are past retention:
//
//   - No verdict depends on it. A message of such a note is too old to be judged. So a deletion that fails, or that the
//     context cuts off, is left to the next sweep.
//   - A note of an ID that carries its message's time is past retention a retention after it. These notes are sorted by
//     time, and a sweep takes the oldest.
//   - A keyed note is one of another ID. Copies of its message may carry different times, if it was sent twice. So it
//     is found by its ID alone, and is past retention after twice that time: a message that was sent within one
//     retention of the first may be handled until then. A sweep looks at some keyed notes, from a random place on.
//   - The present is a [sendersClock]'s.
//   - A sweep comes once in onceSweep effects, and looks at twice as many notes. So notes past retention don't pile up:
//     there are never many more of them than of the others.
const (
	onceClocks = 24 * time.Hour // notes are kept so much longer than they are trusted, because clocks differ
	onceSweep  = storage.MaxBatchRows
	onceTimed  = "t-"
	onceKeyed  = "u-"
)

// onceKey returns the key of a message's note.
func onceKey(e *channel.Envelope, group string) (key string, keyed bool) {
	if _, timed := channel.IDTime(e.ID); timed && e.Since.IsZero() {
		return onceTimed + channel.DerivedID(e.ID, "once", group), false
	}
	return onceKeyed + channel.DerivedID("keyed "+e.ID, "once", group), true // evenly distributed
}

// A sendersClock tells the present by which old rows are deleted: this machine's, but never later than the newest
// message that was handled here. So a clock that is ahead on this machine alone, for a moment or for good, deletes
// nothing that others rely on.
type sendersClock struct{ newest atomic.Int64 }

// saw notes from when a message counts. The zero time is that of a message from elsewhere.
func (c *sendersClock) saw(born time.Time) {
	if born.IsZero() {
		born = time.Now()
	}
	for ms := born.UnixMilli(); ; {
		if was := c.newest.Load(); was >= ms || c.newest.CompareAndSwap(was, ms) {
			return
		}
	}
}

func (c *sendersClock) now() time.Time {
	now, newest := time.Now(), time.UnixMilli(c.newest.Load())
	if newest.Before(now) {
		return newest
	}
	return now
}

// onceSweeper deletes a group's old notes for a process that makes new ones.
type onceSweeper struct {
	table   *storage.Table
	group   string
	effects atomic.Int64
	keyed   atomic.Bool // there may be keyed notes
	clock   sendersClock
}

func newOnceSweep(t *storage.Table, group string) *onceSweeper {
	s := &onceSweeper{table: t, group: group}
	s.effects.Store(rand.Int64N(onceSweep)) // random, so that processes that end sooner sweep, too
	s.keyed.Store(true)
	return s
}

// after counts an effect, and sweeps when it is time. A failure is no fault of that effect's message.
func (s *onceSweeper) after(ctx context.Context) {
	if s.effects.Add(1)%onceSweep != 0 {
		return
	}
	if err := s.sweepTimed(ctx); err == nil && s.keyed.Load() {
		_ = s.sweepKeyed(ctx)
	}
}

func (s *onceSweeper) sweepTimed(ctx context.Context) error {
	ms := fmt.Sprintf("%012x", max(0, s.clock.now().Add(-onceRetention-onceClocks).UnixMilli()))
	var old []string
	past := storage.RowRange{From: onceTimed, To: onceTimed + ms[:8] + "-" + ms[8:], Limit: 2 * onceSweep}
	for row, err := range s.table.Query(ctx, s.group, past) {
		if err != nil {
			return err
		}
		old = append(old, row.Key)
	}
	return s.table.DeleteRows(ctx, s.group, old)
}

// sweepKeyed looks at keyed notes from a random place to the end, and then from the beginning to that place. If there
// are none at all, it isn't called again until this process makes one.
func (s *onceSweeper) sweepKeyed(ctx context.Context) error {
	past := s.clock.now().Add(-2*onceRetention - onceClocks).UnixMilli()
	var old []string
	place, left := fmt.Sprintf("%s%08x", onceKeyed, rand.Uint32()), 2*onceSweep
	for _, some := range []storage.RowRange{{From: place, To: "v"}, {From: onceKeyed, To: place}} {
		some.Limit = left
		for row, err := range s.table.Query(ctx, s.group, some) {
			if err != nil {
				return err
			}
			left--
			var mark onceMark
			if json.Unmarshal(row.Data, &mark) == nil && mark.Since != 0 && mark.Since < past {
				old = append(old, row.Key)
			}
		}
		if left == 0 {
			break // a limit of 0 is none
		}
	}
	if left == 2*onceSweep {
		s.keyed.Store(false)
	}
	return s.table.DeleteRows(ctx, s.group, old)
}
