package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A proposal is one change of what is in force.
type proposal struct {
	edit   edit
	ending waiter
	make   func(values json.RawMessage) (tree, error) // what shall be in force, of what is
	force  bool
	stages []Stage
}

func newProposal(b book, note Note) *proposal {
	p := &proposal{edit: edit{book: b, note: note}}
	p.ending = waiter{book: b, seen: &p.edit.seen, watch: newWatch(b)}
	return p
}

// run proposes the change and waits for its ending.
func (p *proposal) run(ctx context.Context) (Ending, error) {
	var err error
	if p.edit.note, err = p.edit.note.withDefaults(); err != nil {
		return Ending{}, err
	}
	if p.force || p.edit.note.Now {
		p.stages = nil
	}
	if err := repeat(ctx, p.begin); err != nil {
		if p.edit.dropped > 0 { // that one is another's
			return Ending{}, err
		}
		return Ending{Version: p.edit.number}, err // which may have been written
	}
	if p.edit.dropped > 0 {
		e, _ := p.edit.seen.doc.of(p.edit.dropped)
		return e, nil
	}
	return p.ending.await(ctx, awaited{version: p.edit.number, force: p.force, until: Rolling})
}

// begin writes the version and makes it the candidate.
func (p *proposal) begin(ctx context.Context) error {
	if err := p.edit.book.readOrCreate(ctx, &p.edit.seen); err != nil {
		return err
	}
	if p.edit.made(ctx) {
		return nil
	}
	p.edit.dropped = 0
	d := p.edit.seen.doc
	if d.Candidate != nil && !p.force {
		if v := d.Candidate.Version; d.Candidate.Roll != nil {
			return fmt.Errorf("%w, version %d: wait for its end, or drop it by \"settings back --of %s\"", ErrRolling, v, p.edit.book.name)
		}
		e, err := p.ending.await(ctx, awaited{version: d.Candidate.Version, other: true, until: Rolling})
		if err != nil && e.Result == "" {
			return err // it has not ended
		}
		return p.begin(ctx)
	}
	t, err := p.make(d.Values)
	if err != nil {
		return err
	}
	v, err := p.edit.record(ctx, t, nil)
	if errors.Is(err, ErrUnchanged) && d.Candidate != nil {
		return p.edit.drop(ctx) // it is forced
	}
	if err != nil {
		return err
	}
	return p.edit.write(ctx, d.propose(candidate{Version: v.Number, Values: v.Values, By: v.By, Since: v.At, Force: p.force, Stages: p.stages}))
}
