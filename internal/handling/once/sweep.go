package once

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
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
//   - The present is a [wire.SendersClock]'s.
//   - A sweep comes once in effectsASweep effects, and looks at twice as many notes. So notes past retention don't pile
//     up: there are never many more of them than of the others.
const (
	clocksApart   = 24 * time.Hour // notes are kept so much longer than they are trusted, because clocks differ
	effectsASweep = storage.MaxBatchRows
	timedKey      = "t-"
	keyedKey      = "u-"
)

// keyOf returns the key of a message's note.
func keyOf(e *wire.Envelope, group string) (key string, keyed bool) {
	if _, timed := wire.IDTime(e.ID); timed && e.Since.IsZero() {
		return timedKey + wire.DerivedID(e.ID, "once", group), false
	}
	return keyedKey + wire.DerivedID("keyed "+e.ID, "once", group), true // evenly distributed
}

// sweeper deletes a group's old notes for a process that makes new ones.
type sweeper struct {
	table   *storage.Table
	group   string
	effects atomic.Int64
	keyed   atomic.Bool // there may be keyed notes
	clock   wire.SendersClock
}

func newSweeper(t *storage.Table, group string) *sweeper {
	s := &sweeper{table: t, group: group}
	s.effects.Store(rand.Int64N(effectsASweep)) // random, so that processes that end sooner sweep, too
	s.keyed.Store(true)
	return s
}

// after counts an effect, and sweeps when it is time. A failure is no fault of that effect's message.
func (s *sweeper) after(ctx context.Context) {
	if s.effects.Add(1)%effectsASweep != 0 {
		return
	}
	if err := s.sweepTimed(ctx); err == nil && s.keyed.Load() {
		_ = s.sweepKeyed(ctx)
	}
}

func (s *sweeper) sweepTimed(ctx context.Context) error {
	ms := fmt.Sprintf("%012x", max(0, s.clock.Now().Add(-retention-clocksApart).UnixMilli()))
	var old []string
	past := storage.RowRange{From: timedKey, To: timedKey + ms[:8] + "-" + ms[8:], Limit: 2 * effectsASweep}
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
func (s *sweeper) sweepKeyed(ctx context.Context) error {
	past := s.clock.Now().Add(-2*retention - clocksApart).UnixMilli()
	var old []string
	place, left := fmt.Sprintf("%s%08x", keyedKey, rand.Uint32()), 2*effectsASweep
	for _, some := range []storage.RowRange{{From: place, To: "v"}, {From: keyedKey, To: place}} {
		some.Limit = left
		for row, err := range s.table.Query(ctx, s.group, some) {
			if err != nil {
				return err
			}
			left--
			var mark noteRow
			if json.Unmarshal(row.Data, &mark) == nil && mark.Since != 0 && mark.Since < past {
				old = append(old, row.Key)
			}
		}
		if left == 0 {
			break // a limit of 0 is none
		}
	}
	if left == 2*effectsASweep {
		s.keyed.Store(false)
	}
	return s.table.DeleteRows(ctx, s.group, old)
}
