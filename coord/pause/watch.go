package pause

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

// topic is told when the pauses have changed.
const topic = "pauses"

const (
	leastHear = time.Second // that an attempt to listen gets, also if a look is due before
	firstLook = time.Second // until the second look, if the first one fails; the time doubles up to Config.Poll
)

// Watch yields the pauses in force by queue, and again after each change that it sees: of changes that follow closely
// it may see the last only. A pause that ends is a change. A map that is yielded never changes.
//
// It yields nothing until the pauses could be read for the first time. While the store fails, and while the blob can't
// be read as pauses, what was yielded last stays in force. Watch goes on trying until ctx ends.
func (p *Pauses) Watch(ctx context.Context) iter.Seq[map[string]Pause] {
	return func(yield func(map[string]Pause) bool) {
		w := &watcher{Pauses: p, told: make(chan struct{}, 1)}
		defer w.deafen()
		for ctx.Err() == nil {
			w.look(ctx)
			if ctx.Err() != nil || !w.report(yield) {
				return
			}
			due := time.Now().Add(w.untilLook())
			if w.listen(ctx, due) {
				continue // what was told before it listened is in the document by now
			}
			for w.wait(ctx, due) {
				if !w.report(yield) {
					return
				}
				if !w.remove(ctx) {
					break // the document is another one by now
				}
			}
		}
	}
}

// A watcher sees the changes of pauses.
type watcher struct {
	*Pauses
	seen     sighting
	lastRead time.Time         // when the last read began that succeeded; zero: none has
	ends     map[string]ending // of the pauses with a length, by ID
	yielded  map[string]Pause  // last; nil: nothing
	failed   int               // looks since the last one that succeeded
	told     chan struct{}     // capacity 1: the pauses may have changed
	hearing  *storage.Hearing  // nil while it doesn't listen
	blind    bool              // the store failed at the last look
	confused bool              // the blob could not be read as pauses
	deaf     bool              // the last attempt to listen failed
}

// An ending is the end of a pause, by the elapsed time of this machine.
type ending struct {
	at      time.Time
	latest  time.Time // whatever the clock shows
	watched bool      // since the pause began
	over    bool      // the end has come, and was reported
	removed bool      // the watcher has tried to take the pause out of the document
}

// look brings the sighting up to date.
func (w *watcher) look(ctx context.Context) {
	began := time.Now()
	err := w.read(ctx, &w.seen)
	failure, damage := err, err
	if errors.Is(err, ErrUnreadable) {
		failure = nil
	} else {
		damage = nil
	}
	w.note(ctx, slog.LevelWarn, &w.blind, "read the pauses of queues", failure)
	if failure == nil { // else it may still be damaged
		w.note(ctx, slog.LevelError, &w.confused, "understand the pauses of queues", damage)
	}
	if err != nil {
		w.failed++
		return
	}
	w.failed = 0
	w.count(began)
}

// count begins to count down the pauses that the last read has brought.
func (w *watcher) count(began time.Time) {
	now, ends := time.Now(), map[string]ending{}
	age := now.Sub(w.lastRead) // of what was known before
	for _, e := range w.seen.doc.Pauses {
		if e.Until.IsZero() {
			continue
		}
		end, ok := w.ends[e.ID]
		length := e.Until.Sub(e.Since)
		if !ok {
			end.latest, end.watched = now.Add(length), !w.lastRead.IsZero() && age <= 2*w.cfg.Poll
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
	for queue, e := range w.seen.doc.Pauses {
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
	d, some := w.seen.doc.without(func(_ string, e entry) bool {
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
	w.tell(ctx)
	return true
}

// untilLook returns the time until another look is due.
func (w *watcher) untilLook() time.Duration {
	d := w.cfg.Poll
	if w.lastRead.IsZero() && w.failed < 10 {
		d = min(d, (firstLook<<w.failed)/2)
	}
	return d - mathrand.N(d/5)
}

// nextEnd returns when the next pause ends that was not reported to be over, or due if none ends before.
func (w *watcher) nextEnd(due time.Time) (next time.Time, ends bool) {
	for _, end := range w.ends {
		if !end.over && end.at.Before(due) {
			due, ends = end.at, true
		}
	}
	return due, ends
}

// listen begins to listen, and reports that it has begun just now. It gives up when a look is due, or a pause ends.
func (w *watcher) listen(ctx context.Context, due time.Time) bool {
	if w.hearing != nil || !w.store.Rings() {
		return false
	}
	due, _ = w.nextEnd(due)
	limited, cancel := call.Limit(ctx, min(callTime, max(leastHear, time.Until(due))))
	defer cancel()
	h, err := w.store.Hear(limited, topic, w.hear)
	w.note(ctx, slog.LevelWarn, &w.deaf, "be told of changes of pauses", err)
	if err != nil {
		return false // it tries again after the next look
	}
	w.hearing = h
	return true
}

// hear is the watcher's ear.
func (w *watcher) hear(_ []byte, most int) int {
	if most != 0 {
		select {
		case w.told <- struct{}{}:
		default: // there is one that nobody has taken yet
		}
	}
	return 1
}

func (w *watcher) deafen() {
	if w.hearing != nil {
		w.hearing.Close()
		w.hearing = nil
	}
}

// wait waits until it is time for another look, or until a pause ends, which it reports. A hearing that is lost is
// replaced after the next look, not at once, so that a connection that is lost again and again costs little.
func (w *watcher) wait(ctx context.Context, due time.Time) (ended bool) {
	next, ends := w.nextEnd(due)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		var lost <-chan struct{}
		if w.hearing != nil {
			lost = w.hearing.Lost()
		}
		select {
		case <-timer.C:
			return ends
		case <-w.told:
			return false
		case <-ctx.Done():
			return false
		case <-lost:
			w.deafen()
		}
	}
}

// note logs the first failure, and the first success after it.
func (w *watcher) note(ctx context.Context, level slog.Level, failing *bool, what string, err error) {
	switch {
	case ctx.Err() != nil, (err != nil) == *failing:
		return
	case err != nil:
		w.cfg.Logger.LogAttrs(ctx, level, "can't "+what+"; trying again", slog.Any("error", err))
	default:
		w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can "+what+" again")
	}
	*failing = err != nil
}
