package keylock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	retention  = 30 * 24 * time.Hour
	clocks     = 24 * time.Hour // rows are kept so much longer, because clocks differ
	sweepEvery = 128            // turns
	sweepRows  = 2 * sweepEvery // more than come, so that old rows don't pile up
	sweepTime  = 5 * time.Second
)

// A sweeper deletes the rows of keys that have been quiet for long. Where it fails, the rows stay for the next time.
type sweeper struct {
	mu     sync.Mutex
	turns  int
	from   string // where to go on
	begun  bool
	active bool
}

func newSweeper() sweeper { return sweeper{turns: rand.IntN(sweepEvery)} } // random, so that processes that end soon sweep, too

// after counts a turn of a key, and sweeps when it is time.
func (s *sweeper) after(ctx context.Context, ts *Turns, key string) {
	s.mu.Lock()
	s.turns++
	if s.turns%sweepEvery != 0 || s.active {
		s.mu.Unlock()
		return
	}
	if !s.begun {
		s.begun, s.from = true, key
	}
	s.active = true
	from := s.from
	s.mu.Unlock()
	next := ts.sweepFrom(ctx, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.active = next, false
}

// sweepFrom looks at some rows, and deletes the old ones. It returns where to go on.
func (ts *Turns) sweepFrom(ctx context.Context, from string) (next string) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	n := 0
	for row, err := range ts.table.Query(ctx, ts.group, storage.RowRange{From: from, Limit: sweepRows}) {
		if err != nil {
			return from
		}
		n, next = n+1, row.Key+"\x00"
		if d, err := decode(row.Data); err == nil && d.old(ts.cfg.Now()) && ts.isFree(row.Key, d, row.ETag) {
			_ = ts.table.Delete(ctx, ts.group, row.Key, storage.Condition{IfMatch: row.ETag})
		}
	}
	if n < sweepRows {
		return "" // from the beginning
	}
	return next
}

// isFree reports that nobody has the turn of an old row. Where the row names a holder, that is so once this process has
// seen it unchanged for so long that it could take the turn over: a clock may be wrong, and the holder alive.
func (ts *Turns) isFree(key string, d document, etag storage.ETag) bool {
	if d.ID == "" {
		return true
	}
	s, known := ts.seen.get(key)
	if !known || s.ETag != etag {
		s = s.saw(d, etag, nil)
		ts.seen.put(key, s)
	}
	return s.takenFor() <= 0
}

// old reports that nobody needs a row any more. A dead process's turn is kept for twice as long: nobody has watched it.
// A row that lets others wait for a message is kept for as long after that comes again.
func (d *document) old(now time.Time) bool {
	kept := retention + clocks
	if d.ID != "" {
		kept *= 2
	}
	if f := d.State.First; f != nil {
		kept += f.After // ten years at most, and not from before the last write
	}
	return d.State.Halted == nil && now.Sub(time.UnixMilli(d.At)) > kept
}
