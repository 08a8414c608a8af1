package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

const (
	batchEntries = 32
	batchBytes   = 4 << 20
	longestTry   = 30 * time.Second // of a batch
	firstPause   = 250 * time.Millisecond
	lastPause    = 5 * time.Second
	asideFor     = 10 * time.Minute
	remindEvery  = 5 * time.Minute // how often the log tells that an outage goes on
	blameFor     = 10              // how often the first entry must fail in a row, until another one goes ahead of it
	mostLanes    = 3               // how many lanes may fail in a pass before the store counts as away
)

var errStopped = errors.New("the time to drain the spool is over")

// Run forwards what is in the spool until ctx ends. Then it goes on for 5 seconds, as long as the store takes
// something, and returns nil.
func (s *Spool) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(drainTime, func() { cancel(errStopped) })
	})()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx)
	}()
	f := &forwarder{Spool: s, limit: storeTime, mayReport: true, failures: map[string]int{}}
	f.run(ctx, work)
	<-watched
	s.cfg.Logger.InfoContext(ctx, "the spool stops", "spool", s.path, "messages", s.Waiting())
	return nil
}

// A forwarder is a Run under way.
type forwarder struct {
	*Spool
	doomed []*entry      // forwarded, and not out of the file yet
	limit  time.Duration // of the next try: it begins with storeTime and grows, so that an absence shows early

	failures map[string]int // by lane: the number of its last failure; none once it has sent anything
	failure  int            // the number of the last one

	reported  time.Time // when a report was published last
	fault     string    // in it
	mayReport bool      // there may be a report
}

// run forwards until ctx ends, and then until nothing waits or the store, or work, doesn't let it.
func (s *forwarder) run(ctx, work context.Context) {
	pause, reminded := firstPause, time.Now()
	for {
		stopping := ctx.Err() != nil
		err := s.pass(work)
		s.report(work)
		switch {
		case stopping && (err != nil || s.Waiting() == 0):
			return
		case err == nil:
			s.rest(ctx, asideFor, s.wake) // a ring during the pass counts
			pause, s.limit, reminded = firstPause, storeTime, time.Now()
		case !stopping:
			if time.Since(reminded) > remindEvery {
				reminded = time.Now()
				s.remind(ctx, err)
			}
			s.rest(ctx, storecall.Spread(pause), nil)
			pause, s.limit = min(2*pause, lastPause), min(2*s.limit, longestTry)
		}
	}
}

// rest waits for a time, a ring or the stop.
func (s *forwarder) rest(ctx context.Context, d time.Duration, ring <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ring:
	case <-ctx.Done():
	}
}

func (s *forwarder) remind(ctx context.Context, err error) {
	st := s.State()
	s.cfg.Logger.WarnContext(ctx, "messages wait in the spool", "spool", s.path, "messages", st.Waiting, "bytes", st.Bytes, "oldest", st.Oldest, "error", err)
}

// pass sends what waits. It returns an error if something still waits because the store, or a queue of it, is away. It
// begins with the lanes that haven't failed lately: so among n lanes, one that works is found in n/mostLanes passes.
func (s *forwarder) pass(ctx context.Context) error {
	if err := s.lock.hold(); err != nil {
		return fmt.Errorf("%w: %w", errFile, s.fails(ctx, err, 0)) // the program that has the file sends them
	}
	var failed error
	away, sent := map[string]bool{}, false
	s.remove(ctx, nil)
	s.retryAside(ctx)
	for ctx.Err() == nil {
		batch := s.batch(away, s.failures, batchEntries, batchBytes)
		if len(batch) == 0 {
			break
		}
		some, err := s.forward(ctx, batch)
		lane := batch[0].lane
		if sent = sent || some; some {
			delete(s.failures, lane)
			s.back(ctx)
		}
		if err != nil {
			failed = err
			s.failure++
			s.failures[lane] = s.failure
			if away[lane] = true; !sent && len(away) == mostLanes {
				break
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.Waiting() == 0 && sent:
		s.back(ctx)
	case s.Waiting() == 0:
		s.forget(ctx)
	case errors.Is(failed, errFile):
		s.away.Store(nil) // nothing can be forwarded, so each Send finds out for itself
		_ = s.fails(ctx, failed, 0)
	case failed != nil && !sent:
		s.begin(ctx, failed)
	}
	return failed
}

// back notes that the store is there.
func (s *forwarder) back(ctx context.Context) {
	if o := s.away.Swap(nil); o != nil {
		attrs := []any{"spool", s.path, "away", time.Since(o.since).Round(time.Millisecond)}
		if n := s.Waiting(); n > 0 { // which came meanwhile, or are yet to be forwarded
			attrs = append(attrs, "messages", n)
		}
		s.cfg.Logger.InfoContext(ctx, "the store is back: the spool is forwarded", attrs...)
	}
}

// forget forgets an absence of the store once nothing waits that would show its end.
func (s *forwarder) forget(ctx context.Context) {
	if s.away.Swap(nil) != nil {
		s.cfg.Logger.InfoContext(ctx, "nothing waits in the spool any more: the next message tries the store again", "spool", s.path)
	}
}

// forward sends a batch of one lane as one unit of work, and reports whether the store took anything. An error means
// that the lane's queues are away. The entries of a batch that fails go alone, until one finds the store away.
func (s *forwarder) forward(ctx context.Context, batch []*entry) (some bool, err error) {
	err = s.send(ctx, batch)
	switch {
	case errors.Is(err, errNothing):
		return false, nil
	case err == nil, ctx.Err() != nil, errors.Is(err, errFile):
		return err == nil, err
	case isAway(err) && len(batch) == 1:
		return s.passOver(ctx, batch[0], err)
	}
	for _, e := range s.waiting(batch) { // the others were discarded, or are damaged
		switch err := s.send(ctx, []*entry{e}); {
		case err == nil:
			some = true
		case errors.Is(err, errNothing): // it says nothing about the store
		case ctx.Err() != nil, errors.Is(err, errFile):
			return some, err
		case !isAway(err):
			s.putAside(ctx, e, err)
		default:
			passed, err := s.passOver(ctx, e, err)
			return some || passed, err
		}
	}
	return some, nil
}

// passOver sets the first entry of a lane aside if it is to blame for a failure that says that the store is away. When
// it has failed often enough, another one goes ahead of it, to show that. If that one fails too, the count begins anew.
func (s *forwarder) passOver(ctx context.Context, first *entry, why error) (sent bool, err error) {
	other := s.behind(first)
	if other == nil { // it holds up nobody
		first.blamed = 0
		return false, why
	}
	if first.blamed++; first.blamed < blameFor {
		return false, why
	}
	first.blamed = 0
	switch err := s.send(ctx, []*entry{other}); {
	case err == nil:
		s.putAside(ctx, first, why)
		return true, nil
	case ctx.Err() != nil, errors.Is(err, errFile):
		return false, err
	}
	return false, why
}

// errNothing says that the store wasn't asked: the entries were discarded, or are damaged.
var errNothing = errors.New("nothing is left to send")

// send sends entries as one unit of work, and removes them from the file once the store has acknowledged them.
func (s *forwarder) send(ctx context.Context, entries []*entry) error {
	var envelopes []wire.Envelope
	var good []*entry
	for _, e := range entries {
		some, err := s.read(ctx, e)
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
	limited, cancel := storecall.Limit(ctx, s.limit)
	defer cancel()
	packed, err := s.outbox.PackBy(limited, 1, envelopes)
	if err == nil {
		err = s.outbox.SendPacked(limited, packed)
	}
	if err != nil {
		return err
	}
	s.remove(ctx, good)
	return nil
}

// errFile says that the file of the spool failed, not the store.
var errFile = errors.New("the file of the spool can't be read")

// read returns the envelopes of an entry. It forgets one that is no longer in the file, and sets a damaged one aside.
func (s *forwarder) read(ctx context.Context, e *entry) ([]wire.Envelope, error) {
	limited, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	b, err := s.blobs.Get(limited, e.key(), "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if s.release(e) {
			s.remarks.tellDiscarded(ctx, e.key(), e.messages)
		}
		return nil, errNothing
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errFile, err)
	}
	envelopes, err := e.decode(b.Body)
	if err != nil {
		s.putAside(ctx, e, err)
		return nil, errNothing
	}
	return envelopes, nil
}

// remove removes entries that the store has, and those whose removal has failed before. After a crash they are sent
// again.
func (s *forwarder) remove(ctx context.Context, sent []*entry) {
	for _, e := range sent {
		s.take(e)
		s.forwarded.Add(e.messages)
	}
	all := append(s.doomed, sent...)
	s.doomed, _ = erase(context.WithoutCancel(ctx), s.blobs, all, s.release)
}

// putAside sets an entry aside, once.
func (s *forwarder) putAside(ctx context.Context, e *entry, why error) {
	if !s.setAside(e, why, time.Now().Add(asideFor)) {
		return
	}
	s.remarks.noteRefusal(ctx, e, why)
	s.cfg.Logger.ErrorContext(ctx, "messages of the spool can't be sent and are set aside: they stay in the file", "spool", s.path, "messages", e.messages, "error", why)
}

// retryAside tries those set aside that are due, until the store seems to be away. Of the others it learns whether they
// are still in the file.
func (s *forwarder) retryAside(ctx context.Context) {
	now, away := time.Now(), false
	for _, a := range s.takeAside(now, now.Add(asideFor)) {
		if away {
			_, _ = s.read(ctx, a.entry)
			continue
		}
		err := s.send(ctx, []*entry{a.entry})
		switch {
		case err == nil:
			s.dropAside(a)
			s.remarks.noteRefusal(ctx, a.entry, nil)
		case ctx.Err() != nil, errors.Is(err, errFile):
			return
		default:
			away = isAway(err)
		}
	}
}
