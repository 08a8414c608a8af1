package settings

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	forceAfter = 10 * time.Second // a forced change passes over those that have not answered by then
	quickPause = 20 * time.Millisecond
)

// A waiter waits for what becomes of versions.
type waiter struct {
	book  book
	seen  *sighting
	watch watch
	told  func([]Wait) // is told who is waited for; nil: nobody is
	waits []Wait       // at the last look
}

// An awaited is a version whose ending is waited for.
type awaited struct {
	version int64
	other   bool   // it is another change than the proposed one, which waits for it
	force   bool   // it passes over those that don't answer
	until   Result // Rolling: the beginning of its roll-out is enough
}

// await waits for the ending of a version, or for the beginning of its roll-out if that is enough. It settles the
// version once the answers are complete. While the store fails, it goes on trying.
func (w *waiter) await(ctx context.Context, a awaited) (Ending, error) {
	began, slept, state := time.Now(), 0, "being checked"
	what := fmt.Sprintf("version %d is still", a.version)
	if a.other {
		what = fmt.Sprintf("another change, version %d, is still", a.version)
	}
	w.waits = nil
	for {
		e, ended, err := w.settle(ctx, a.version, a.force && time.Since(began) >= forceAfter)
		for i, wait := range w.waits {
			w.waits[i].Other = a.other
			if last := began.Add(forceAfter); a.force && wait.Until.After(last) {
				w.waits[i].Until = last
			}
		}
		switch {
		case ended && (e.Result != Rolling || a.until == Rolling):
			return e, e.Err()
		case ctx.Err() != nil:
			return Ending{Version: a.version}, fmt.Errorf("%s %s%s: %w", what, state, waitsText(w.waits), context.Cause(ctx))
		case ended:
			state, w.waits = "being rolled out", nil
		case storage.LostRace(err):
			continue
		case err != nil && storecall.Permanent(err):
			return Ending{Version: a.version}, err
		}
		if w.told != nil && len(w.waits) > 0 {
			w.told(slices.Clone(w.waits))
		}
		if err := storecall.Sleep(ctx, storecall.Doubled(quickPause, soon, slept)); err == nil {
			slept++
		}
	}
}

// settle looks whether a version has ended, or its roll-out has begun. If the answers are complete, or are waited for
// no more, it brings that about.
func (w *waiter) settle(ctx context.Context, version int64, passOver bool) (e Ending, ended bool, err error) {
	if err := w.book.read(ctx, w.seen); err != nil {
		return Ending{}, false, err
	}
	d := w.seen.doc
	if e, ok := d.of(version); ok {
		return e, true, nil
	}
	if d.Candidate == nil || d.Candidate.Version != version {
		return Ending{}, false, fmt.Errorf("%w: version %d is neither being checked nor among the last changes", storage.ErrInvalid, version)
	}
	if d.Candidate.Roll != nil {
		return d.rolling(), true, nil
	}
	w.watch.bury(ctx, d)
	all, err := w.watch.look(ctx)
	if err != nil {
		return Ending{}, false, err
	}
	next, settled := tally(d, all.live(), passOver, time.Now())
	if !settled {
		w.waits = all.waits(*d.Candidate)
		return Ending{}, false, nil
	}
	if err := w.book.write(ctx, w.seen, next); err != nil {
		return Ending{}, false, err
	}
	w.book.tell(ctx)
	if w.seen.doc.Candidate != nil {
		return w.seen.doc.rolling(), true, nil
	}
	return w.seen.doc.Ended[0], true, nil
}
