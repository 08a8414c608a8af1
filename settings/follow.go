package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

const (
	soon     = time.Second      // between two looks while a change is being checked
	deafFor  = 30 * time.Second // between two attempts to listen
	startFor = 10 * time.Second // for the first look
)

// A follower is the part of Settings that belongs to the goroutine that looks at the store.
type follower[T any] struct {
	*Settings[T]
	seen    sighting
	nodes   watch
	running *ready[T]
	agreed  *ready[T] // the candidate that this node said yes to
	verdict *Verdict  // on the last candidate
	epoch   int64     // the highest that was seen; it only grows
	source  Source
	since   time.Time // when running was applied
	beats   int64
	fault   string          // why the version in force isn't running
	failing map[string]bool // what is logged as failing
}

// begin finds out what the node runs first: what the store says, or else the cache.
func (s *follower[T]) begin(ctx context.Context) error {
	err := s.firstLook(ctx)
	s.since = time.Now()
	if err == nil && s.seen.etag != "" {
		d := s.seen.doc
		if err := s.run(d.Stable, d.Values); err != nil {
			return fmt.Errorf("version %d is in force, and this program can't run it; change it, or start a program that can: %w", d.Stable, err)
		}
		s.epoch, s.source = d.Epoch, FromStore
		s.save(ctx)
		s.beat(ctx) // whoever proposes a change from now on asks this node
		s.publish(true)
		return nil
	}
	kept, fault := load(s.cfg.Cache, s.name)
	if fault == nil {
		fault = s.run(kept.Version, kept.Values)
	}
	switch {
	case fault == nil:
		s.epoch, s.source = kept.Epoch, FromCache
		if err == nil {
			err = errGoneSince
		}
		s.fault = err.Error()
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "starting with the cached settings", slog.Int64("version", kept.Version), slog.Any("error", err))
	case err == nil && errors.Is(fault, errNoCache), err != nil && s.cfg.Offline && !errors.Is(err, storage.ErrInvalid):
		if fault := s.run(0, []byte("{}")); fault != nil {
			return fmt.Errorf("the defaults: %w", fault)
		}
		s.source = FromDefaults
		if err != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "starting with the default settings", slog.Any("error", errors.Join(err, fault)))
		}
	default:
		return errors.Join(err, fault)
	}
	if err == nil {
		s.beat(ctx)
	}
	s.publish(err == nil)
	return nil
}

// errGoneSince is the fault of a store without the settings that the cache has.
var errGoneSince = fmt.Errorf("%w: the store has no such settings, but this node has applied some: was the store replaced? Then delete the node's cache and restart it", storage.ErrInvalid)

// firstLook reads the current document. It tries again while the store doesn't answer.
func (s *follower[T]) firstLook(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startFor, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, startFor))
	defer cancel()
	for {
		err := s.readKnown(ctx, &s.seen)
		if err == nil || call.Permanent(err) || call.Sleep(ctx, soon) != nil {
			return err
		}
	}
}

// run prepares a version for a node that runs nothing yet, and runs it.
func (s *follower[T]) run(version int64, values []byte) error {
	r, err := within(context.Background(), s.cfg.Patience, "this program", func(context.Context) (*ready[T], error) { return s.shape.prepare(version, values, nil) })
	if err == nil {
		s.running = r
		s.now.Store(r.runs)
	}
	return err
}

// follow looks at the store until ctx ends.
func (s *follower[T]) follow(ctx context.Context) {
	for {
		again := s.look(ctx)
		s.afterLook()
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.woken:
			timer.Stop()
		}
	}
}

// afterLook lets those go on that wait for a look.
func (s *Settings[T]) afterLook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.looked)
	s.looked = make(chan struct{})
}

// wake makes the node look now. If it is looking, it looks again after that.
func (s *Settings[T]) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// listen wakes the node when something has changed, where the store rings.
func (s *Settings[T]) listen(ctx context.Context) {
	for s.store.Rings() && ctx.Err() == nil {
		l, err := signal.Listen(ctx, s.store, s.topic())
		if err == nil {
			for s.wake(); err == nil; s.wake() { // what was told before it listened is in the document
				_, err = l.Any(ctx)
			}
			l.Close()
		}
		if call.Sleep(ctx, deafFor) != nil {
			return
		}
	}
}

// look brings the node up to date, writes its row and settles a candidate whose answers are complete. It returns when
// to look again.
func (s *follower[T]) look(ctx context.Context) time.Duration {
	pause := s.cfg.Poll - mathrand.N(s.cfg.Poll/5)
	for {
		err := s.read(ctx, &s.seen)
		s.note(ctx, "read the settings", err)
		if err != nil && !errors.Is(err, storage.ErrInvalid) {
			return pause // without a row: a live row promises an answer
		}
		if err != nil {
			s.seen = sighting{}
		}
		s.heed(ctx, err)
		s.publish(true)
		if ctx.Err() != nil {
			return pause
		}
		s.beat(ctx)
		live, err := s.nodes.live(ctx)
		s.note(ctx, "read the rows of the nodes", err)
		c := s.seen.doc.Candidate
		if c == nil {
			return pause
		}
		result, reasons, settled := judgement(*c, live)
		if err != nil || !settled || len(live) == 0 || ctx.Err() != nil {
			return soon
		}
		err = s.write(ctx, &s.seen, s.seen.doc.settle(result, reasons, time.Now()))
		if storage.LostRace(err) {
			continue // somebody else has settled it
		}
		s.note(ctx, "settle a change", err)
		if err != nil {
			return soon
		}
		s.tell(ctx)
	}
}

// heed applies what is in force, and answers a candidate. wrong is why the document can't be heeded.
func (s *follower[T]) heed(ctx context.Context, wrong error) {
	d := s.seen.doc
	if wrong == nil {
		switch {
		case s.seen.etag == "" && s.epoch > 0:
			wrong = errGoneSince
		case d.Epoch < s.epoch:
			wrong = fmt.Errorf("%w: the store is at epoch %d of these settings, and this node has seen epoch %d: was a backup restored? Then restart the node", storage.ErrInvalid, d.Epoch, s.epoch)
		}
	}
	switch {
	case wrong != nil:
	case s.seen.etag == "": // nobody has ever set anything
	case d.Stable == s.running.version:
		s.epoch, s.source = d.Epoch, FromStore
	default:
		s.epoch = d.Epoch
		wrong = s.apply(ctx, d)
	}
	s.note(ctx, "run the settings in force", wrong)
	s.fault = ""
	if wrong != nil {
		s.fault = clean(wrong.Error(), maxReason)
	}
	if c := d.Candidate; c != nil && (s.verdict == nil || s.verdict.Version != c.Version) {
		s.answer(ctx, *c)
	}
}

// apply runs the version in force.
func (s *follower[T]) apply(ctx context.Context, d document) (err error) {
	r := s.agreed
	if r == nil || r.version != d.Stable || r.from != s.running.runs {
		from := s.running.runs
		r, err = within(ctx, s.cfg.Patience, "this program", func(context.Context) (*ready[T], error) { return s.shape.prepare(d.Stable, d.Values, from) })
		if err != nil {
			return fmt.Errorf("version %d is in force, and this node can't run it: %w", d.Stable, err)
		}
	}
	s.running, s.agreed = r, nil
	s.now.Store(r.runs)
	s.source, s.since = FromStore, time.Now()
	if len(r.waiting) > 0 {
		select {
		case <-s.restart:
		default:
			close(s.restart)
		}
	}
	s.save(ctx)
	s.tellObservers()
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "settings changed", slog.Int64("version", r.version), slog.Any("waiting", r.waiting))
	return nil
}

// save keeps the version in force in the cache.
func (s *follower[T]) save(ctx context.Context) {
	if s.cfg.Cache == "" {
		return
	}
	d := s.seen.doc
	err := cached{Name: s.name, Epoch: d.Epoch, Version: d.Stable, Values: d.Values}.save(s.cfg.Cache)
	s.note(ctx, "write the cache of the settings", err)
}

// answer asks this node's code about a candidate.
func (s *follower[T]) answer(ctx context.Context, c candidate) {
	from := s.running.runs
	s.mu.Lock()
	asked := s.changing[:len(s.changing):len(s.changing)]
	s.mu.Unlock()
	r, err := within(ctx, s.cfg.Patience, "this program", func(ctx context.Context) (*ready[T], error) {
		r, err := s.shape.prepare(c.Version, c.Values, from)
		for _, f := range asked {
			if err == nil {
				err = f(ctx, *from, *r.runs)
			}
		}
		return r, err
	})
	if ctx.Err() != nil {
		return // the node is closing
	}
	if s.seen.doc.Epoch < s.epoch {
		err = errors.New(s.fault)
	}
	s.verdict = &Verdict{Version: c.Version, Yes: err == nil}
	if err != nil {
		s.verdict.Why = clean(err.Error(), maxReason)
		return
	}
	s.agreed = r
}

// beat writes the node's row.
func (s *follower[T]) beat(ctx context.Context) {
	s.beats++
	r := s.running
	err := s.put(ctx, Node{
		ID: s.id, Name: s.cfg.Name, Poll: s.cfg.Poll.Milliseconds(), Beats: s.beats, At: time.Now().Round(0).UTC(), Epoch: s.epoch, Version: r.version,
		Since: s.since.Round(0).UTC(), Source: s.source, Verdict: s.verdict, Fault: s.fault, Waiting: r.waiting, Values: r.form, Secrets: r.secrets,
	})
	s.note(ctx, "write the node's row", err)
	if err == nil {
		s.listed.Store(true)
	}
}

// publish makes the state known to State.
func (s *follower[T]) publish(answered bool) {
	p := &published{State: State{Version: s.running.version, Epoch: s.epoch, Source: s.source, Since: s.since, Waiting: s.running.waiting, Fault: s.fault}}
	p.answered = time.Now()
	if before := s.state.Load(); !answered && before != nil {
		p.answered = before.answered
	}
	s.state.Store(p)
}

// note logs the first failure of something, and the first success after it.
func (s *follower[T]) note(ctx context.Context, what string, err error) {
	switch {
	case ctx.Err() != nil, (err != nil) == s.failing[what]:
		return
	case err != nil:
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't "+what+"; trying again", slog.Any("error", err))
	default:
		s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can "+what+" again")
	}
	s.failing[what] = err != nil
}
