package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/storecall"
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
	kept    *ready[T] // what ran before, while running is a candidate that is rolled out; else nil
	agreed  *ready[T] // the candidate that this node said yes to
	verdict *Verdict  // on the last candidate
	told    int64     // the last candidate to which this node's row says yes
	joined  bool      // no candidate ends without this node's answer
	beaten  time.Time // before the row was written last
	epoch   int64     // the highest that was seen; it only grows
	source  Source
	since   time.Time // when running was applied
	beats   int64
	stable  int64           // the version in force that keep was called for; -1: none
	ended   int64           // the highest version that is known to have ended
	clock   clock           // of a roll-out
	trial   trial           // the last one
	health  *Health         // in a roll-out, else nil
	ailing  int64           // the candidate before which this node wasn't well, nor since; 0: none
	probing *atomic.Bool    // Health or Work is being called
	fault   string          // why the version in force isn't running
	making  int64           // the version of the last prepare; -1: none
	made    <-chan struct{} // closed when that has returned
	failing map[string]bool // what is logged as failing
}

// begin finds out what the node runs first: what the store says, or else the cache.
func (s *follower[T]) begin(ctx context.Context) error {
	err := s.firstLook(ctx)
	s.since = time.Now()
	if err == nil && s.seen.etag != "" {
		return enter(ctx, s)
	}
	kept, fault := load(s.cfg.Cache, s.name)
	if fault == nil && kept.Version == 0 && err == nil {
		fault = errNoCache // it says what the store says: nobody has set anything
	}
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
	case err == nil, errors.Is(err, storage.ErrInvalid): // the store does answer, and err says what to do
		return errors.Join(err, fault)
	default:
		return errors.Join(err, fmt.Errorf("%w; start the program while the store answers, or let it start with the defaults (settings.Config.Offline)", fault))
	}
	if err == nil {
		if s.source == FromDefaults && s.cfg.Cache != "" { // for a start while the store is away
			s.note(ctx, "write the cache of the settings", cached{Name: s.name, Values: json.RawMessage("{}")}.save(s.cfg.Cache))
		}
		s.beat(ctx)
		if join(ctx, s); s.source == FromDefaults && s.seen.etag != "" { // the document was written meanwhile
			return enter(ctx, s)
		}
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
		if err == nil || storecall.Permanent(err) || storecall.Sleep(ctx, soon) != nil {
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
		if storecall.Sleep(ctx, deafFor) != nil {
			return
		}
	}
}

// look brings the node up to date, writes its row, settles a candidate whose answers are complete, and brings a
// roll-out forward. It returns when to look again.
func (s *follower[T]) look(ctx context.Context) time.Duration {
	pause := s.cfg.Poll - mathrand.N(s.cfg.Poll/5)
	for ctx.Err() == nil {
		err := s.read(ctx, &s.seen)
		s.note(ctx, "read the settings", err)
		if err != nil && !errors.Is(err, storage.ErrInvalid) {
			return pause // without a row: a live row promises an answer
		}
		if err != nil {
			s.seen = sighting{}
		}
		if s.seen.doc.Epoch >= s.epoch {
			s.nodes.bury(ctx, s.seen.doc)
		}
		s.clock.see(s.seen.doc.Epoch, time.Now())
		heeded := s.heed(ctx, err)
		s.publish(true)
		if ctx.Err() != nil {
			return pause
		}
		told, beaten := s.told, s.beaten
		s.beat(ctx)
		if !s.joined && s.beaten != beaten && join(ctx, s) {
			continue // with what is in the document now
		}
		live, err := s.nodes.live(ctx)
		s.note(ctx, "read the rows of the nodes", err)
		switch c := s.seen.doc.Candidate; {
		case c == nil:
			return pause
		case c.Roll != nil:
			if p := c.pace(s.cfg.Poll); err != nil || ctx.Err() != nil || !heeded || !s.drive(ctx, live) && told == s.told && s.beaten.Sub(beaten) <= 2*s.cfg.Poll {
				return p - mathrand.N(p/5)
			}
		case err != nil || ctx.Err() != nil || !s.settle(ctx, *c, live):
			return soon
		}
	}
	return pause
}

// settle ends the check of a candidate if the answers are complete. changed reports that there is something to heed
// now.
func (s *follower[T]) settle(ctx context.Context, c candidate, live []Node) (changed bool) {
	result, reasons, settled := judgement(c, live)
	if !settled || len(live) == 0 {
		return false
	}
	err := s.write(ctx, &s.seen, s.seen.doc.conclude(result, reasons, live, time.Now()))
	if storage.LostRace(err) {
		return true // somebody else has settled it
	}
	s.note(ctx, "settle a change", err)
	if err == nil {
		s.tell(ctx)
	}
	return err == nil
}

// heed runs what this node shall run, and answers a candidate. wrong is why the document can't be heeded, which heeded
// reports.
func (s *follower[T]) heed(ctx context.Context, wrong error) (heeded bool) {
	d := s.seen.doc
	if wrong == nil {
		switch {
		case s.seen.etag == "" && s.epoch > 0:
			wrong = errGoneSince
		case d.Epoch < s.epoch:
			wrong = fmt.Errorf("%w: the store is at epoch %d of these settings, and this node has seen epoch %d: was a backup restored? Then restart the node", storage.ErrInvalid, d.Epoch, s.epoch)
		}
	}
	heeded = wrong == nil && s.seen.etag != "" // else nobody has ever set anything
	if heeded {
		s.epoch, s.source = d.Epoch, FromStore
		for _, e := range d.Ended {
			s.ended = max(s.ended, e.Version)
		}
		wrong = s.runStable(ctx, d)
	}
	s.note(ctx, "run the settings in force", wrong)
	s.fault = ""
	if wrong != nil {
		s.fault = clean(wrong.Error(), maxReason)
	}
	c := d.Candidate
	switch {
	case c == nil:
	case d.Epoch < s.epoch:
		s.verdict = &Verdict{Version: c.Version, Why: s.fault}
	case c.Version <= s.ended:
		s.verdict = &Verdict{Version: c.Version, Why: "this version has ended before: was a backup restored?"}
	case s.verdict == nil || s.verdict.Version != c.Version:
		s.answer(ctx, *c)
	}
	s.health = nil
	if heeded && c != nil && c.Roll != nil && ctx.Err() == nil {
		s.examine(ctx, *c, s.try(ctx, *c))
	}
	return heeded
}

// runStable runs the version in force, unless this node runs the candidate in its stage.
func (s *follower[T]) runStable(ctx context.Context, d document) error {
	switch c := d.Candidate; {
	case c != nil && s.running.version == c.Version && c.includes(s.id):
		return nil
	case s.running.version == d.Stable:
	case s.kept != nil && s.kept.version == d.Stable:
		s.swap(ctx, s.kept)
	default:
		if err := s.take(ctx, d.Stable, d.Values); err != nil {
			if e, ended := d.of(s.running.version); s.kept != nil && !(ended && e.came()) {
				s.swap(ctx, s.kept) // it must not go on with what was rolled back
				s.kept = nil
			}
			return fmt.Errorf("version %d is in force, and this node can't run it: %w", d.Stable, err)
		}
	}
	s.keep(ctx, d)
	return nil
}

// try runs the candidate if this node is in its stage, and its row says that it has agreed: then others will know what
// it ran if it dies. The error is why it can't run the candidate, which is rare then.
func (s *follower[T]) try(ctx context.Context, c candidate) error {
	if v := s.verdict; v == nil || v.Version != c.Version || !v.Yes || s.told != c.Version || !c.includes(s.id) || s.running.version == c.Version {
		return nil
	}
	_, ill := fares(ctx, &s.cfg, s.probing, true) // an illness of before tells nothing of the candidate
	if time.Since(s.beaten) > 2*s.cfg.Poll {
		return nil // others may have deleted the row, or be about to
	}
	before := s.running
	if err := s.take(ctx, c.Version, c.Values); err != nil {
		return err
	}
	if s.kept, s.ailing = before, 0; ill != nil {
		s.ailing = c.Version
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "this node isn't well before it runs a change; until it is, its Health doesn't count against the change",
			slog.Int64("version", c.Version), slog.Any("error", ill))
	}
	return nil
}

// take makes this node run a version.
func (s *follower[T]) take(ctx context.Context, version int64, values json.RawMessage) (err error) {
	r := s.agreed
	if r == nil || r.version != version || r.from != s.running.runs {
		from := s.running.runs
		if r, err = s.prepare(ctx, version, values, from); err != nil {
			return err
		}
	}
	s.swap(ctx, r)
	return nil
}

// prepare makes a version ready. While a call for it from an earlier look goes on, there is no other one: a Check that
// hangs isn't called at each look.
func (s *follower[T]) prepare(ctx context.Context, version int64, values json.RawMessage, from *T) (*ready[T], error) {
	if s.making == version {
		select {
		case <-s.made:
		default:
			return nil, fmt.Errorf("%w: this program has not returned since an earlier look", storage.ErrUnavailable)
		}
	}
	done := make(chan struct{})
	s.making, s.made = version, done
	return ask(ctx, s, func(context.Context) (*ready[T], error) {
		defer close(done)
		return s.shape.prepare(version, values, from)
	})
}

// ask is within for this node's own code. It beats while the code runs: a slow node isn't a dead one.
func ask[T, R any](ctx context.Context, s *follower[T], f func(ctx context.Context) (R, error)) (R, error) {
	var value R
	done := make(chan error, 1)
	go func() {
		var err error
		value, err = within(ctx, s.cfg.Patience, "this program", f)
		done <- err
	}()
	beats := time.NewTicker(s.cfg.Poll)
	defer beats.Stop()
	for {
		select {
		case err := <-done:
			return value, err
		case <-beats.C:
			s.beat(ctx)
		}
	}
}

// swap makes this node run what is ready.
func (s *follower[T]) swap(ctx context.Context, r *ready[T]) {
	s.running, s.agreed = r, nil
	s.now.Store(r.runs)
	s.source, s.since = FromStore, time.Now()
	s.tellObservers()
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "settings changed", slog.Int64("version", r.version), slog.Any("waiting", r.waiting))
}

// keep is called while this node runs the version in force. The first time it writes the cache, and tells of settings
// that wait for a restart: a node that starts has the version in force, so before that a restart would be for nothing.
func (s *follower[T]) keep(ctx context.Context, d document) {
	s.kept = nil
	if s.stable == d.Stable {
		return
	}
	s.stable = d.Stable
	if len(s.running.waiting) > 0 {
		select {
		case <-s.restart:
		default:
			close(s.restart)
		}
	}
	if s.cfg.Cache == "" {
		return
	}
	err := cached{Name: s.name, Epoch: d.Epoch, Version: d.Stable, Values: d.Values}.save(s.cfg.Cache)
	if err != nil {
		s.stable = -1 // the next look tries again
	}
	s.note(ctx, "write the cache of the settings", err)
}

// answer asks this node's code about a candidate.
func (s *follower[T]) answer(ctx context.Context, c candidate) {
	from := s.running.runs
	s.mu.Lock()
	asked := s.changing[:len(s.changing):len(s.changing)]
	s.mu.Unlock()
	r, err := ask(ctx, s, func(ctx context.Context) (*ready[T], error) {
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
	r, began := s.running, time.Now()
	err := s.put(ctx, Node{
		ID: s.id, Name: s.cfg.Name, Poll: s.cfg.Poll.Milliseconds(), Beats: s.beats, At: time.Now().Round(0).UTC(), Epoch: s.epoch, Version: r.version,
		Since: s.since.Round(0).UTC(), Source: s.source, Verdict: s.verdict, Fault: s.fault, Waiting: s.running.waits(s.kept != nil), Values: r.form, Secrets: r.secrets, Stages: s.cfg.Stages, Health: s.health,
	})
	s.note(ctx, "write the node's row", err)
	if err == nil {
		s.joined = s.joined && began.Sub(s.beaten) <= 2*s.cfg.Poll
		s.beaten = began
		s.listed.Store(true)
		if v := s.verdict; v != nil && v.Yes {
			s.told = v.Version
		}
	}
}

// publish makes the state known to State.
func (s *follower[T]) publish(answered bool) {
	p := &published{State: State{Version: s.running.version, Epoch: s.epoch, Source: s.source, Since: s.since, Waiting: s.running.waits(s.kept != nil), Staged: s.kept != nil, Fault: s.fault}}
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
