package pause

import (
	"context"
	"crypto/rand"
	"iter"
	"maps"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
)

// topic is told when the pauses have changed.
const topic = "pauses"

const firstLook = time.Second // until the second look, if the first one fails; the time doubles up to usualPoll

// Watch yields the pauses in force by queue, and again after each change that it sees: of changes that follow closely
// it may see the last only. A pause that ends is a change. A map that is yielded never changes.
//
// It yields nothing until the pauses could be read for the first time. While the store fails, and while the blob can't
// be read as pauses, what was yielded last stays in force. Watch goes on trying until ctx ends.
func (p *Pauses) Watch(ctx context.Context) iter.Seq[map[string]Pause] {
	return func(yield func(map[string]Pause) bool) {
		w := &watcher{Pauses: p, trouble: agree.NewTrouble(p.cfg.Logger)}
		agree.NewLoop(p.store, topic, nil, w.trouble, "changes of pauses").Run(ctx, func(ctx context.Context, rung bool) (again time.Duration, over bool) {
			return w.step(ctx, rung, yield)
		})
	}
}

// A watcher sees the changes of pauses.
type watcher struct {
	*Pauses
	trouble  *agree.Trouble
	seen     sighting
	due      time.Time         // when another look is due
	lastRead time.Time         // when the last read began that succeeded; zero: none has
	ends     map[string]ending // of the pauses with a length, by ID
	yielded  map[string]Pause  // last; nil: nothing
	failed   int               // looks since the last one that succeeded
}

// step looks at the document if that is due, or if somebody has rung. Else a pause ends.
func (w *watcher) step(ctx context.Context, rung bool, yield func(map[string]Pause) bool) (again time.Duration, over bool) {
	if rung || !time.Now().Before(w.due) {
		w.look(ctx)
	}
	for {
		if ctx.Err() != nil || !w.report(yield) {
			return 0, true
		}
		if w.remove(ctx) {
			return time.Until(w.nextEnd(w.due)), false
		}
		w.look(ctx) // the document is another one by now
	}
}

// An ending is the end of a pause, by the elapsed time of this machine.
type ending struct {
	at      time.Time
	latest  time.Time // whatever the clock shows
	watched bool      // since the pause began
	over    bool      // the end has come, and was reported
	removed bool      // the watcher has tried to take the pause out of the document
}

// look brings the sighting up to date. A document that can't be read as pauses changes nothing.
func (w *watcher) look(ctx context.Context) {
	began, seen := time.Now(), w.seen
	err := w.doc.Read(ctx, &seen)
	failure := err
	if seen.Fault != nil {
		failure = nil
	}
	w.trouble.Note(ctx, "read the pauses of queues", failure)
	if failure == nil { // else the document may still be damaged
		w.trouble.Note(ctx, "understand the pauses of queues", err)
	}
	if err == nil {
		w.seen, w.failed = seen, 0
		w.count(began)
	} else {
		w.failed++
	}
	w.due = time.Now().Add(w.untilLook())
}

// count begins to count down the pauses that the last read has brought.
func (w *watcher) count(began time.Time) {
	now, ends := time.Now(), map[string]ending{}
	age := now.Sub(w.lastRead) // of what was known before
	for _, e := range w.seen.Doc.Pauses {
		if e.Until.IsZero() {
			continue
		}
		end, ok := w.ends[e.ID]
		length := e.Until.Sub(e.Since)
		if !ok {
			end.latest, end.watched = now.Add(length), !w.lastRead.IsZero() && age <= 2*w.cfg.poll
		}
		left := max(0, min(e.Until.Sub(w.now()), end.latest.Sub(now)))
		switch {
		case !end.watched: // at each look anew: the clock may have been wrong at the last one
			end.at = now.Add(left)
		case !ok:
			end.at = now.Add(max(left, length-age))
		}
		ends[e.ID] = end
	}
	w.ends, w.lastRead = ends, began
}

// report yields the pauses in force, if that is news. It returns false when the loop is over.
func (w *watcher) report(yield func(map[string]Pause) bool) bool {
	if w.lastRead.IsZero() {
		return true
	}
	now := time.Now()
	for id, end := range w.ends {
		end.over = !now.Before(end.at)
		w.ends[id] = end
	}
	all := map[string]Pause{}
	for queue, e := range w.seen.Doc.Pauses {
		if !w.ends[e.ID].over {
			all[queue] = e.pause()
		}
	}
	if w.yielded != nil && maps.Equal(all, w.yielded) {
		return true
	}
	w.yielded = all
	return yield(all)
}

// remove takes the pauses that are over out of the document, if this watcher has watched them since they began. It
// tries once for each: it may lack the right to write. It returns false if the document must be read.
func (w *watcher) remove(ctx context.Context) (fresh bool) {
	d, some := w.seen.Doc.without(func(_ string, e entry) bool {
		end := w.ends[e.ID]
		return end.over && end.watched && !end.removed
	})
	for id, end := range w.ends {
		end.removed = end.over
		w.ends[id] = end
	}
	if !some {
		return true
	}
	d.ID = rand.Text()
	if w.write(ctx, &w.seen, d) != nil {
		return false
	}
	w.ring(ctx)
	return true
}

// untilLook returns the time until another look is due.
func (w *watcher) untilLook() time.Duration {
	d := w.cfg.poll
	if w.lastRead.IsZero() {
		d = storecall.Doubled(firstLook/2, d, w.failed)
	}
	return storecall.Early(d)
}

// nextEnd returns when the next pause ends that was not reported to be over, or due if none ends before.
func (w *watcher) nextEnd(due time.Time) time.Time {
	for _, end := range w.ends {
		if !end.over && end.at.Before(due) {
			due = end.at
		}
	}
	return due
}
