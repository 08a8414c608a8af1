package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/internal/wire"
)

const (
	longestTry  = 30 * time.Second // of a batch
	firstPause  = 250 * time.Millisecond
	lastPause   = 5 * time.Second
	remindEvery = 5 * time.Minute // how often the log tells that an outage goes on
	blameFor    = 10              // how often the first entry must fail in a row, until another one goes ahead of it
	mostLanes   = 3               // how many lanes may fail in a pass before the store counts as away
)

var errStopped = errors.New("the time to drain the spool is over")

// A forwarder is a Run under way: it sends what waits, again and again while the store or a queue is away.
type forwarder struct {
	outbox    *wire.Outbox
	index     *index
	health    *health
	store     *storeState
	report    *reporter
	state     func() State
	log       *slog.Logger
	wake      bell
	forwarded *atomic.Int64 // messages

	tries    int            // passes that failed in a row; the longer, the more time a send gets, so that an absence shows early
	failedAt map[string]int // by lane: the number of its last failure; none once it has sent anything
	failures int            // the number of the last one
}

// run forwards until ctx ends, and then until nothing waits or the store, or work, doesn't let it.
func (f *forwarder) run(ctx, work context.Context) {
	reminded := time.Now()
	for {
		stopping := ctx.Err() != nil
		err := f.pass(work)
		f.report.publish(work, f.state())
		switch {
		case stopping && (err != nil || f.index.waits.Load() == 0):
			return
		case err == nil:
			rest(ctx, asideFor, f.wake) // a ring during the pass counts
			f.tries, reminded = 0, time.Now()
		case !stopping:
			if time.Since(reminded) > remindEvery {
				reminded = time.Now()
				f.remind(ctx, err)
			}
			rest(ctx, storecall.Spread(storecall.Doubled(firstPause, lastPause, f.tries)), nil)
			f.tries++
		}
	}
}

// rest waits for a time, a ring or the stop.
func rest(ctx context.Context, d time.Duration, ring bell) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ring:
	case <-ctx.Done():
	}
}

func (f *forwarder) remind(ctx context.Context, err error) {
	st := f.state()
	f.log.WarnContext(ctx, "messages wait in the spool", "messages", st.Waiting, "bytes", st.Bytes, "oldest", st.Oldest, "error", err)
}

// pass sends what waits. It returns an error if something still waits because the store or a queue is away. The lanes
// that haven't failed lately come first: so among n lanes, a lane that works is found in n/mostLanes passes.
func (f *forwarder) pass(ctx context.Context) error {
	if err := f.health.hold(ctx, 0); err != nil {
		return fmt.Errorf("%w: %w", errFile, err) // the program that has the file sends them
	}
	var failed error
	away, sent := map[string]bool{}, false
	f.index.remove(ctx, nil)
	f.retryAside(ctx)
	for ctx.Err() == nil {
		batch := f.index.batch(away, f.failedAt)
		if len(batch) == 0 {
			break
		}
		some, err := f.forward(ctx, batch)
		lane := batch[0].lane
		if sent = sent || some; some {
			delete(f.failedAt, lane)
			f.store.noteBack(ctx, f.index.waits.Load())
		}
		if err != nil {
			failed = err
			f.failures++
			f.failedAt[lane] = f.failures
			if away[lane] = true; !sent && len(away) == mostLanes {
				break
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.judge(ctx, sent, failed)
	return failed
}

// judge concludes from a pass whether the store is away and the file can be read.
func (f *forwarder) judge(ctx context.Context, sent bool, failed error) {
	waiting := f.index.waits.Load()
	switch {
	case waiting == 0 && sent:
		f.store.noteBack(ctx, waiting)
	case waiting == 0:
		f.store.forget(ctx)
	case errors.Is(failed, errFile):
		f.store.suspend()
		_ = f.health.fails(ctx, failed, 0)
	case failed != nil && !sent:
		f.store.noteAway(ctx, failed)
	}
}

// forward sends a batch of one lane as one unit of work, and reports whether the store took anything. An error means
// that the lane's queues are away. The entries of a batch that fails go alone, until one finds the store away.
func (f *forwarder) forward(ctx context.Context, batch []*entry) (some bool, err error) {
	err = f.send(ctx, batch)
	switch {
	case errors.Is(err, errNothing):
		return false, nil
	case err == nil, ctx.Err() != nil, errors.Is(err, errFile):
		return err == nil, err
	case isAway(err) && len(batch) == 1:
		return f.passOver(ctx, batch[0], err)
	}
	for _, e := range f.index.waiting(batch) { // the others were discarded, or are damaged
		switch err := f.send(ctx, []*entry{e}); {
		case err == nil:
			some = true
		case errors.Is(err, errNothing): // it says nothing about the store
		case ctx.Err() != nil, errors.Is(err, errFile):
			return some, err
		case !isAway(err):
			f.index.setAside(ctx, e, err)
		default:
			passed, err := f.passOver(ctx, e, err)
			return some || passed, err
		}
	}
	return some, nil
}

// passOver finds out whether the store is away, or the first entry of a lane makes it seem so. When the first entry has
// failed often enough, an entry behind it goes ahead. If the store takes that entry, the first is to blame and is set
// aside. If not, the count begins anew.
func (f *forwarder) passOver(ctx context.Context, first *entry, why error) (sent bool, err error) {
	other := f.index.behind(first)
	if other == nil { // it holds up nobody
		first.blamed = 0
		return false, why
	}
	if first.blamed++; first.blamed < blameFor {
		return false, why
	}
	first.blamed = 0
	switch err := f.send(ctx, []*entry{other}); {
	case err == nil:
		f.index.setAside(ctx, first, why)
		return true, nil
	case ctx.Err() != nil, errors.Is(err, errFile):
		return false, err
	}
	return false, why
}

// send sends entries as one unit of work, and removes them from the file once the store has acknowledged them.
func (f *forwarder) send(ctx context.Context, entries []*entry) error {
	var envelopes []wire.Envelope
	var good []*entry
	for _, e := range entries {
		some, err := f.index.read(ctx, e)
		switch {
		case errors.Is(err, errNothing):
			continue
		case err != nil:
			return err
		}
		envelopes, good = append(envelopes, some...), append(good, e)
	}
	if len(good) == 0 {
		return errNothing
	}
	limited, cancel := storecall.Limit(ctx, storecall.Doubled(storeTime, longestTry, f.tries))
	defer cancel()
	packed, err := f.outbox.PackBy(limited, 1, envelopes)
	if err == nil {
		err = f.outbox.SendPacked(limited, packed)
	}
	if err != nil {
		return err
	}
	f.index.remove(ctx, good)
	for _, e := range good {
		f.forwarded.Add(e.messages)
	}
	return nil
}

// retryAside tries the entries that were set aside and are due, until the store seems to be away. From then on it only
// looks whether the entries are still in the file.
func (f *forwarder) retryAside(ctx context.Context) {
	away := false
	for _, e := range f.index.dueAside() {
		if away {
			_, _ = f.index.read(ctx, e)
			continue
		}
		switch err := f.send(ctx, []*entry{e}); {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, errFile):
			return
		default:
			away = isAway(err)
		}
	}
}
