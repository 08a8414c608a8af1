package guard

import (
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	leastRow   = 2                // failures in a row, of as many messages, that are a doubt if others doubt, too
	firstRow   = 3                // failures in a row, of leastRow messages, that are a doubt by themselves
	moreRow    = 2                // so many more after each doubt that has passed
	doubtRest  = 10 * time.Minute // after which one that has passed counts no more
	doubtStep  = 5                // a doubt is told again when it has grown by such a part of Break.Of
	doubtCalls = 1                // at a time, of a worker whose process has begun to doubt
	doubtTime  = time.Second      // for which it keeps to that, so that processes can agree
)

// doubt is what processes tell each other while their breakers are closed and their calls fail. Each says early that
// they do, and counts the failures of the others as its own, until a call of its own is done. Its callers hold the
// breaker's mutex.
type doubt struct {
	on     bool        // this process says that its calls fail
	began  time.Time   // when it began to say so
	timer  *time.Timer // until it takes more calls at a time again
	told   int         // failures in a row that it has told of
	others failures    // that others have told of since a call of this process was done
	until  time.Time   // when those are forgotten

	reliefs int // calls that were done while this process or others were in doubt

	passed int       // doubts, since the breaker opened last
	ended  time.Time // when the last of them did
}

// failures are calls that failed in a row.
type failures struct {
	Row      int      `json:"row"`
	Messages []uint32 `json:"messages"` // digests of those that failed last
}

// fails judges a failure while the breaker is closed.
func (d *doubt) fails(b *breaker, now time.Time) {
	w := &b.window
	if w.tripped(b.when, now) || d.agrees(b, now) {
		b.mine = true
		b.open(0)
		return
	}
	if d.on && d.told < b.when.Of && w.row >= d.told+b.when.step() {
		d.told = w.row
		b.heard = append(b.heard, event{kind: doubtful})
	} else if d.on || w.sum.failures == max(1, b.when.Of/2) {
		b.heard = append(b.heard, event{kind: uneasy})
	}
	d.raise(b, now)
}

// step is by how much a doubt has grown when that is told.
func (b Break) step() int { return max(1, b.Of/doubtStep) }

// raise lets the others know that calls fail. Each doubt that has passed lately makes it wait for more failures, so a
// service that comes and goes costs few requests.
func (d *doubt) raise(b *breaker, now time.Time) {
	w := &b.window
	least := firstRow
	if d.others.Row > 0 {
		least = leastRow
	}
	if d.on || w.row < least+moreRow*d.lately(now) || len(w.inRow(b.when.Window, now)) < leastRow {
		return
	}
	d.on, d.told, d.began = true, w.row, now
	b.news.tell()
	d.timer = time.AfterFunc(doubtTime, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.news.tell()
	})
	b.heard = append(b.heard, event{kind: doubtful})
}

// lately is how many doubts of this process have passed, but for one in each while.
func (d *doubt) lately(now time.Time) int { return max(0, d.passed-int(now.Sub(d.ended)/doubtRest)) }

// end forgets everything, because the breaker opens.
func (d *doubt) end() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = doubt{reliefs: d.reliefs}
}

// relieve notes that a call was done: what others say is not this process's trouble, and its own doubt has passed.
func (d *doubt) relieve(b *breaker, now time.Time) {
	d.reliefs++
	if d.others = (failures{}); !d.on {
		return
	}
	d.timer.Stop()
	d.on, d.passed, d.ended = false, d.lately(now)+1, now
	b.news.tell()
	b.heard = append(b.heard, event{kind: doubtful})
}

// agrees reports that the failures in a row of this process, and those that others have told of, are together as many
// as open a breaker, and of as many messages.
func (d *doubt) agrees(b *breaker, now time.Time) bool {
	w := &b.window
	if d.others.Row == 0 || !now.Before(d.until) || w.row < max(leastRow, b.when.Of-d.others.Row) {
		return false
	}
	mine := w.inRow(b.when.Window, now)
	all := slices.Concat(mine, d.others.Messages)
	slices.Sort(all)
	return len(mine) >= leastRow && len(slices.Compact(all)) >= b.when.Distinct
}

// hear notes which failures others tell of. If those are more than before, they count until a call of this process is
// done.
func (d *doubt) hear(b *breaker, others failures, more bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.unlock()
	if b.state != closed {
		return
	}
	if d.on && len(b.window.inRow(caseAge, now)) == 0 {
		d.relieve(b, now) // nothing is called any more
	}
	if more {
		d.until = now.Add(caseAge)
	} else {
		others.Row = min(others.Row, d.others.Row)
	}
	d.others = others
	switch {
	case d.agrees(b, now):
		b.mine = true
		b.open(0)
	case others.Row > 0:
		d.raise(b, now)
	}
}

// spreads reports that calls seem to fail for more than one message, here or in other processes, under the mutex.
func (d *doubt) spreads(b *breaker) bool {
	return d.others.Row > 0 || b.window.row >= leastRow && len(b.window.inRow(b.when.Window, time.Now())) >= leastRow
}

// hesitates reports that this process has begun to doubt just now.
func (d *doubt) hesitates(b *breaker) bool {
	return b.state == closed && d.on && time.Since(d.began) < doubtTime
}

// doubting returns the failures that this process tells others of, and how many more are worth telling.
func (d *doubt) doubting(b *breaker, now time.Time) (f failures, more int) {
	if b.state != closed || !d.on {
		return failures{}, 0
	}
	messages := b.window.inRow(b.when.Window, now)
	return failures{b.window.row, messages[:min(len(messages), mostDigests)]}, b.when.step()
}

// inRow returns the digests of the messages that are among the failures in a row, and have failed within a time.
func (w *window) inRow(within time.Duration, now time.Time) (digests []uint32) {
	for _, s := range w.failing {
		if w.row == 0 || s.at.Before(w.rowAt) || now.Sub(s.at) > within {
			continue
		}
		digest := crc32.ChecksumIEEE([]byte(s.id))
		if s.id == "" {
			digest = rand.Uint32() // a message of its own
		}
		digests = append(digests, digest)
	}
	return digests
}

// heard is what another process has told.
type heard struct {
	row  int       // its failures; 0: its breaker has opened
	at   time.Time // when that was seen first; zero: it may be old
	past int       // of its failures, those that count no more; of a breaker that has opened, whether that doesn't
}

// hearsay is what the others have told of their failures, as far as the record says it.
type hearsay struct {
	of      map[string]heard
	others  int // failures, in all
	reliefs int // of this process when it listened last
}

// listen tells the breaker of the failures that others tell of. A process whose breaker has opened lately counts as one
// that has seen as many as open it.
func (h *hearsay) listen(f *fleet) {
	now, heards := time.Now(), map[string]heard{}
	note := func(id string, told heard) (counts int) {
		old, known := h.of[id]
		switch {
		case known && old.row == told.row:
			told = old
		case known && told.row > old.row:
			told.past = old.past
		case f.changed.IsZero(): // nobody knows how old that is
			told.past = max(0, told.row-firstRow)
		}
		if heards[id] = told; id == f.id || f.old != 0 || f.doc.Open || now.Sub(told.at) >= caseAge {
			return 0
		}
		return max(1, told.row) - told.past
	}
	f.b.mu.Lock()
	each, reliefs := f.b.when, f.b.doubt.reliefs
	f.b.mu.Unlock()
	if reliefs != h.reliefs { // what was told before a call was done counts no more
		for id, told := range h.of {
			told.past = max(1, told.row)
			h.of[id] = told
		}
		h.reliefs, h.others = reliefs, 0
	}
	var all failures
	for id, told := range f.doc.Doubt {
		if n := note(id, heard{row: told.Row, at: now}); n > 0 {
			all.Row += n
			all.Messages = append(all.Messages, told.Messages...)
		}
	}
	for _, id := range f.doc.Ill {
		if note(id, heard{at: f.changed}) > 0 {
			all.Row += each.Of
			for n := range each.Distinct {
				all.Messages = append(all.Messages, uint32(n))
			}
		}
	}
	f.b.doubt.hear(f.b, all, all.Row > h.others)
	h.of, h.others = heards, all.Row
}

// stale returns the processes other than id that have told of failures long ago.
func (h *hearsay) stale(id string, now time.Time) (ids []string) {
	for other, told := range h.of {
		if told.row > 0 && other != id && now.Sub(told.at) >= caseAge {
			ids = append(ids, other)
		}
	}
	return ids
}
