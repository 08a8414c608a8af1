package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// The kinds of a proposal that didn't come into force.
var (
	ErrRefused   = errors.New("refused")                          // a live node said no
	ErrDropped   = errors.New("dropped for another change")       // see [Dropped]
	ErrUnchanged = errors.New("this is what is in force already") // nothing was proposed
	ErrNever     = errors.New("this version never was in force")  // so nobody can go back to it

	ErrRolledBack = errors.New("rolled back")                        // see [RolledBack]
	ErrRolling    = errors.New("another change is being rolled out") // nothing was proposed
)

const (
	tries       = 3 // of a proposal
	retryPause  = 300 * time.Millisecond
	forceAfter  = 10 * time.Second // a forced change passes over those that have not answered by then
	quickPause  = 20 * time.Millisecond
	maxVersions = 1000 // that are followed to find what to go back to
)

// Propose changes what is in force, for all nodes. It calls change with a copy of that, perhaps more than once, and
// proposes what it has changed there. It returns when every live node has said yes and this node runs it, or with
// [ErrRefused] and the reasons when one has said no. It waits for a proposal that somebody else has made before, and
// gives change what is in force then.
//
// With [Config.Stages] it returns when every live node has said yes and the roll-out has begun: the result is
// [Rolling], and [Ledger.Await] tells the end. While a change is rolled out, another one is [ErrRolling].
//
// A change that this program itself can't run is an error, and one that changes nothing is [ErrUnchanged]; nothing is
// proposed then. After an end of ctx, an error of the store, or Close, the change may come into force later. A node
// that is closed proposes nothing; the error matches storage.ErrUnavailable.
func (s *Settings[T]) Propose(ctx context.Context, note Note, change func(*T)) (Ending, error) {
	p := proposal{book: s.book, note: note, stages: s.cfg.Stages, make: func(values json.RawMessage) (tree, error) {
		t, err := s.shape.patch(ctx, values, change)
		if err != nil {
			return nil, err
		}
		next, err := encodeTree(t)
		if err != nil {
			return nil, err
		}
		_, err = within(ctx, s.cfg.Patience, "this program", func(context.Context) (*ready[T], error) { return s.shape.prepare(0, next, s.now.Load()) })
		return t, err
	}}
	err := s.wait(ctx, func() bool { return s.listed.Load() && !s.closed() }) // it answers for itself
	if err != nil {
		return Ending{}, s.fail("propose a change of", err)
	}
	e, err := p.run(ctx)
	if err != nil {
		return e, s.fail("propose a change of", err)
	}
	if err := s.wait(ctx, func() bool { return s.State().Epoch >= e.Epoch }); err != nil {
		return e, s.fail("run the change of", err)
	}
	if fault := s.State().Fault; fault != "" {
		return e, s.fail("run the change of", errors.New(fault))
	}
	return e, nil
}

// errClosed is the error of a proposal whose node was closed.
var errClosed = fmt.Errorf("%w: these settings were closed", storage.ErrUnavailable)

// closed reports that Close was called.
func (s *Settings[T]) closed() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// wait waits until a look has made something true. It wakes the node once, and then each second.
func (s *Settings[T]) wait(ctx context.Context, is func() bool) error {
	again := time.NewTicker(soon)
	defer again.Stop()
	for wake := true; ; {
		s.mu.Lock()
		looked := s.looked
		s.mu.Unlock()
		if is() {
			return nil
		}
		if wake {
			s.wake()
		}
		select {
		case <-looked:
			wake = false
		case <-again.C:
			wake = true
		case <-s.ended:
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A proposal is one change of what is in force. It has its effect once at most, although its writes are repeated.
type proposal struct {
	book
	note    Note
	make    func(values json.RawMessage) (tree, error) // what shall be in force, of what is
	force   bool
	stages  []Stage
	number  int64   // of its version; 0: it has none yet
	tried   []int64 // all that it has had: a write whose answer was lost may come late
	dropped int64   // the candidate that it drops; 0: none
	other   int64   // the candidate whose end it waits for before it begins; 0: none
	nodes   watch
	seen    sighting
	told    func([]Wait) // is told who is waited for; nil: nobody is
	waits   []Wait       // at the last look
}

// run proposes the change and waits for its ending.
func (p *proposal) run(ctx context.Context) (Ending, error) {
	var err error
	if p.note, err = p.note.withDefaults(); err != nil {
		return Ending{}, err
	}
	if p.nodes = newWatch(p.book); p.force || p.note.Now {
		p.stages = nil
	}
	if err := repeat(ctx, p.begin); err != nil {
		if p.dropped > 0 { // that one is another's
			return Ending{}, err
		}
		return Ending{Version: p.number}, err // which may have been written
	}
	if p.dropped > 0 {
		e, _ := p.seen.doc.of(p.dropped)
		return e, nil
	}
	return p.await(ctx, p.number, p.force, Rolling)
}

// repeat calls try until it succeeds: at once after a lost race, and twice more after a failure of the store.
func repeat(ctx context.Context, try func(ctx context.Context) error) error {
	for n := 1; ; {
		err := try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // it says what was waited for
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case storage.LostRace(err): // somebody else wrote first
			continue
		case n == tries, !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled):
			return err
		}
		if err := storecall.Sleep(ctx, retryPause+mathrand.N(retryPause)); err != nil {
			return err
		}
		n++
	}
}

// begin writes the version and makes it the candidate.
func (p *proposal) begin(ctx context.Context) error {
	if err := p.readOrCreate(ctx, &p.seen); err != nil {
		return err
	}
	d := p.seen.doc
	if p.hasDropped(d) || p.written(d) {
		p.tell(ctx) // it was written, and the answer was lost
		return nil
	}
	p.dropped = 0
	if d.Candidate != nil && !p.force {
		if v := d.Candidate.Version; d.Candidate.Roll != nil {
			return fmt.Errorf("%w, version %d: wait for its end, or drop it by \"settings back -of %s\"", ErrRolling, v, p.name)
		}
		p.other = d.Candidate.Version
		if e, err := p.await(ctx, p.other, false, Rolling); err != nil && e.Result == "" {
			return err // it has not ended
		}
		return p.begin(ctx)
	}
	t, err := p.make(d.Values)
	if err != nil {
		return err
	}
	v, err := p.record(ctx, d, t, nil)
	if errors.Is(err, ErrUnchanged) && d.Candidate != nil {
		return p.drop(ctx, d) // it is forced
	}
	if err != nil {
		return err
	}
	p.try(v.Number)
	return p.change(ctx, d.propose(candidate{Version: v.Number, Values: v.Values, By: v.By, Since: v.At, Force: p.force, Stages: p.stages}))
}

// try notes the number of the version that is about to be written into the document.
func (p *proposal) try(number int64) {
	p.number, p.dropped, p.tried = number, 0, append(p.tried, number)
}

// written reports that a document has one of the proposal's versions, which then is the proposal's.
func (p *proposal) written(d document) bool {
	for _, n := range p.tried {
		if _, ended := d.of(n); ended || d.Candidate != nil && d.Candidate.Version == n {
			p.number = n
			return true
		}
	}
	return false
}

// readOrCreate is readKnown, and writes the first document, so that a version without one tells that it was lost.
func (b book) readOrCreate(ctx context.Context, seen *sighting) error {
	if err := b.readKnown(ctx, seen); err != nil || seen.etag != "" {
		return err
	}
	return b.write(ctx, seen, document{})
}

// record writes the version that makes t of what is in force.
func (p *proposal) record(ctx context.Context, d document, t tree, backTo *int64) (Version, error) {
	values, err := encodeTree(t)
	if err != nil {
		return Version{}, err
	}
	if bytes.Equal(values, d.Values) {
		return Version{}, fmt.Errorf("%w, as version %d", ErrUnchanged, d.Stable)
	}
	from, err := parseTree(d.Values)
	if err != nil {
		return Version{}, err
	}
	return p.addVersion(ctx, Version{
		Number: max(d.Last, p.number) + 1, Base: d.Stable, BackTo: backTo, By: p.note.By, Why: p.note.Why, At: time.Now().Round(0).UTC(), Epoch: d.Epoch,
		Values: values, Changes: changes(from, t),
	})
}

// await waits for the ending of a version, or for the beginning of its roll-out if until says so. It settles the
// version once the answers are complete. While the store fails, it goes on trying.
func (p *proposal) await(ctx context.Context, version int64, force bool, until Result) (Ending, error) {
	began, pause, state := time.Now(), quickPause, "being checked"
	what := fmt.Sprintf("version %d is still", version)
	if version == p.other {
		what = fmt.Sprintf("another change, version %d, is still", version)
	}
	p.waits = nil
	for {
		e, ended, err := p.settle(ctx, version, force && time.Since(began) >= forceAfter)
		for i, w := range p.waits {
			p.waits[i].Other = version == p.other
			if last := began.Add(forceAfter); force && w.Until.After(last) {
				p.waits[i].Until = last
			}
		}
		switch {
		case ended && (e.Result != Rolling || until == Rolling):
			return e, e.err()
		case ctx.Err() != nil:
			return Ending{Version: version}, fmt.Errorf("%s %s%s: %w", what, state, waitsText(p.waits), context.Cause(ctx))
		case ended:
			state, p.waits = "being rolled out", nil
		case storage.LostRace(err):
			continue
		case err != nil && storecall.Permanent(err):
			return Ending{Version: version}, err
		}
		if p.told != nil && len(p.waits) > 0 {
			p.told(slices.Clone(p.waits))
		}
		if err := storecall.Sleep(ctx, pause); err == nil {
			pause = min(2*pause, soon)
		}
	}
}

// settle looks whether a version has ended, or its roll-out has begun. If the answers are complete, or are waited for
// no more, it brings that about.
func (p *proposal) settle(ctx context.Context, version int64, passOver bool) (e Ending, ended bool, err error) {
	if err := p.read(ctx, &p.seen); err != nil {
		return Ending{}, false, err
	}
	d := p.seen.doc
	if e, ok := d.of(version); ok {
		return e, true, nil
	}
	if d.Candidate == nil || d.Candidate.Version != version {
		return Ending{}, false, fmt.Errorf("%w: version %d is neither being checked nor among the last changes", storage.ErrInvalid, version)
	}
	if d.Candidate.Roll != nil {
		return d.rolling(), true, nil
	}
	p.nodes.bury(ctx, d)
	live, err := p.nodes.live(ctx)
	if err != nil {
		return Ending{}, false, err
	}
	result, reasons, settled := judgement(*d.Candidate, live)
	if !settled && !passOver {
		p.waits = p.nodes.waits(*d.Candidate)
		return Ending{}, false, nil
	}
	if err := p.write(ctx, &p.seen, d.conclude(result, reasons, live, time.Now())); err != nil {
		return Ending{}, false, err
	}
	p.tell(ctx)
	if p.seen.doc.Candidate != nil {
		return p.seen.doc.rolling(), true, nil
	}
	return p.seen.doc.Ended[0], true, nil
}

// rolling stands for the ending of a candidate whose roll-out has begun.
func (d document) rolling() Ending {
	return Ending{Version: d.Candidate.Version, Result: Rolling, Epoch: d.Epoch, At: d.Candidate.Roll.At}
}

// err is the error of a version that didn't come into force.
func (e Ending) err() error {
	var all []string
	for _, r := range e.Reasons {
		all = append(all, r.String())
	}
	switch e.Result {
	case Refused:
		by := " by "
		if len(e.Reasons) > 0 && e.Reasons[0].Node == "" {
			by = ": "
		}
		if e.Version == 0 {
			return fmt.Errorf("%w%s%s", ErrRefused, by, strings.Join(all, "; "))
		}
		return fmt.Errorf("version %d: %w%s%s", e.Version, ErrRefused, by, strings.Join(all, "; "))
	case RolledBack:
		return fmt.Errorf("version %d: %w: %s", e.Version, ErrRolledBack, strings.Join(all, "; "))
	case Dropped:
		return fmt.Errorf("version %d: %w", e.Version, ErrDropped)
	}
	return nil
}
