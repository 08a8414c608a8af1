package gate

import (
	"context"
	"iter"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

// topic is told the name of a gate that has changed.
const topic = "gates"

// deafFor is the time between two attempts to listen.
const deafFor = 30 * time.Second

// leastHear is the least time that an attempt to listen gets, also if a look is due before.
const leastHear = time.Second

// Watch yields the state of the gate, and then each change that it sees: of changes that follow closely it may see the
// last only. It ends with ctx. An error is yielded last: it is about the name, or a blob that is no gate. While the
// store fails, Watch yields nothing and goes on trying.
func (g *Gate) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if g.fault != nil {
			yield(State{}, g.fault)
			return
		}
		for s, err := range g.watch(ctx, new(error)) {
			if err != nil {
				err = g.fail("watch", err)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// watch keeps in last why the last look failed.
func (g *Gate) watch(ctx context.Context, last *error) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		w := &watcher{Gate: g, told: make(chan struct{}, 1)}
		defer w.deafen()
		var yielded *storage.ETag // of the last state
		for ctx.Err() == nil {
			err := g.look(ctx, &w.seen)
			if ctx.Err() == nil {
				*last = err
			}
			w.note(ctx, &w.blind, "look at a gate", err)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && call.Permanent(err):
				yield(State{}, err)
				return
			case err == nil && (yielded == nil || *yielded != w.seen.etag):
				etag := w.seen.etag
				if yielded = &etag; !yield(w.seen.doc.state(), nil) {
					return
				}
			}
			due := time.Now().Add(w.untilLook())
			if !w.listen(ctx, due) { // what was told before it listened is in the document by now
				w.pause(ctx, due)
			}
		}
	}
}

// A watcher sees the changes of a gate.
type watcher struct {
	*Gate
	seen    sighting
	told    chan struct{}    // capacity 1: the gate may have changed
	hearing *storage.Hearing // nil while it doesn't listen
	blind   bool             // the last look failed
	deaf    bool             // the last attempt to listen failed
	again   time.Time        // when to try again then: it may lack a right, and each attempt can be a request
}

// listen begins to listen, and reports that it has begun just now. It gives up when the next look is due.
func (w *watcher) listen(ctx context.Context, due time.Time) bool {
	if w.hearing != nil || !w.store.Rings() || time.Now().Before(w.again) {
		return false
	}
	limited, cancel := call.Limit(ctx, min(callTime, max(leastHear, time.Until(due))))
	defer cancel()
	h, err := w.store.Hear(limited, topic, w.hear)
	w.note(ctx, &w.deaf, "be told of changes of a gate", err)
	if err != nil {
		w.again = time.Now().Add(deafFor)
		return false
	}
	w.hearing = h
	return true
}

// hear is the watcher's ear: it takes what concerns its gate.
func (w *watcher) hear(data []byte, most int) int {
	if string(data) != w.name {
		return 0
	}
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

// untilLook returns the time until another look is due.
func (w *watcher) untilLook() time.Duration {
	d := w.cfg.Poll
	if w.seen.doc.Open {
		d *= openPolls
	}
	d -= mathrand.N(d / 5)
	if at := w.seen.doc.OpensAt; !at.IsZero() {
		if left := at.Sub(w.now()); left > 0 { // else the last look could not open it
			d = min(d, left)
		}
	}
	return d
}

// pause waits until it is time for another look. A hearing that is lost is replaced with the next look, not at once, so
// that a connection that is lost again and again costs little.
func (w *watcher) pause(ctx context.Context, due time.Time) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		var lost <-chan struct{}
		if w.hearing != nil {
			lost = w.hearing.Lost()
		}
		select {
		case <-timer.C:
			return
		case <-w.told:
			return
		case <-ctx.Done():
			return
		case <-lost:
			w.deafen()
		}
	}
}

// note logs the first failure, and the first success after it.
func (w *watcher) note(ctx context.Context, failing *bool, what string, err error) {
	switch {
	case ctx.Err() != nil, (err != nil) == *failing:
		return
	case err != nil:
		w.log(ctx, slog.LevelWarn, "can't "+what+"; trying again", slog.Any("error", err))
	default:
		w.log(ctx, slog.LevelInfo, "can "+what+" again")
	}
	*failing = err != nil
}
