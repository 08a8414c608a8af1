package gate

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

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
		trouble := agree.NewTrouble(g.cfg.Logger)
		var seen sighting
		var yielded *storage.ETag // of the last state
		agree.NewLoop(g.store, topic, g.concerns, trouble, "changes of a gate").Run(ctx, func(ctx context.Context, rung bool) (again time.Duration, over bool) {
			err := g.look(ctx, &seen)
			if ctx.Err() != nil {
				return 0, true
			}
			*last = err
			trouble.Note(ctx, "look at a gate", err)
			switch {
			case err != nil && storecall.Permanent(err):
				yield(State{}, err)
				return 0, true
			case err == nil && (yielded == nil || *yielded != seen.ETag):
				etag := seen.ETag
				yielded = &etag
				over = !yield(seen.Doc.state(), nil)
			}
			return g.untilLook(seen.Doc), over
		})
	}
}

// concerns reports that a ring is about this gate.
func (g *Gate) concerns(data []byte) bool { return string(data) == g.name }

// untilLook returns the time until another look is due.
func (g *Gate) untilLook(d document) time.Duration {
	pause := g.cfg.poll
	if d.Open {
		pause *= openPolls
	}
	pause = storecall.Early(pause)
	if at := d.OpensAt; !at.IsZero() {
		if left := at.Sub(g.now()); left > 0 { // else the last look could not open it
			pause = min(pause, left)
		}
	}
	return pause
}
