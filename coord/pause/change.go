package pause

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// Pause pauses queues for a length of time, from a second to ten years, or with length 0 until somebody resumes them. A
// queue that is paused already gets the new length and note. When Pause returns nil, the watches that listen have been
// told.
//
// After an error the queues may be paused or not, all of them. To call Pause again is harmless, unless somebody has
// changed the pauses since.
func (p *Pauses) Pause(ctx context.Context, queues []string, length time.Duration, note Note) error {
	note, err := note.withDefaults()
	if err = errors.Join(err, checkQueues(queues), checkLength(length)); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	id := rand.Text()
	return p.change(ctx, "pause", id, func(d document) (document, bool) { return p.paused(d, queues, length, note, id), len(queues) > 0 })
}

// Resume ends the pauses of queues. A queue that isn't paused stays as it is. Errors are as those of [Pauses.Pause].
func (p *Pauses) Resume(ctx context.Context, queues ...string) error {
	if err := checkQueues(queues); err != nil {
		return fmt.Errorf("pause: resume: %w", err)
	}
	return p.change(ctx, "resume", rand.Text(), func(d document) (document, bool) {
		return d.without(func(queue string, _ entry) bool { return slices.Contains(queues, queue) })
	})
}

// Repair replaces a blob that can't be read as pauses, because it is damaged or somebody else wrote it. Then these
// queues are paused as by [Pauses.Pause], and no others: whatever was paused besides is consumed again. Without queues
// nothing is paused. Pauses that can be read stay as they are, with an error that is storage.ErrInvalid.
func (p *Pauses) Repair(ctx context.Context, queues []string, length time.Duration, note Note) error {
	note, err := note.withDefaults()
	if err = errors.Join(err, checkQueues(queues), checkLength(length)); err == nil {
		err = p.repair(ctx, queues, length, note)
	}
	if err != nil {
		return fmt.Errorf("pause: repair: %w", err)
	}
	p.ring(ctx)
	return nil
}

func (p *Pauses) repair(ctx context.Context, queues []string, length time.Duration, note Note) error {
	var seen sighting
	if err := p.doc.Read(ctx, &seen); seen.Fault == nil {
		if err == nil {
			err = fmt.Errorf("%w: the pauses can be read, so there is nothing to repair", storage.ErrInvalid)
		}
		return err
	}
	id := rand.Text()
	return p.write(ctx, &seen, p.paused(document{ID: id}, queues, length, note, id))
}

// paused returns the document with these queues paused from now on. It changes the map of d.
func (p *Pauses) paused(d document, queues []string, length time.Duration, note Note, id string) document {
	if d.Pauses == nil {
		d.Pauses = map[string]entry{}
	}
	e := entry{By: note.By, Why: note.Why, Since: p.now().Round(0).UTC(), ID: id}
	if length > 0 {
		e.Until = e.Since.Add(length)
	}
	for _, q := range queues {
		d.Pauses[q] = e
	}
	return d
}

// change writes what next makes of the document, and lets all watches look.
func (p *Pauses) change(ctx context.Context, op, id string, next func(d document) (document, bool)) error {
	c := agree.Change[document]{ID: id, Look: p.doc.Read, Write: p.write, Stamp: stamp, Doubt: errDoubt}
	c.Next = func(seen sighting) (document, bool, error) {
		d, changed := next(seen.Doc)
		d.ID = id
		return d, changed, nil
	}
	if err := c.Make(ctx); err != nil {
		return fmt.Errorf("pause: %s queues: %w", op, err)
	}
	p.ring(ctx)
	return nil
}

func stamp(d document) (id string, epoch int64) { return d.ID, d.Epoch }

// errDoubt is the error of a change that may have been done and replaced by another one.
var errDoubt = fmt.Errorf("%w: an answer was lost, and the pauses have been changed since: whether this change came before that is unknown. List the pauses",
	storage.ErrUnavailable)

// ring lets all watches look at the pauses.
func (p *Pauses) ring(ctx context.Context) {
	if err := agree.Ring(ctx, p.store, topic, nil); err != nil {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't tell others of a change of pauses; they see it with their next look", slog.Any("error", err))
	}
}
