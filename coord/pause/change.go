package pause

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-go/millrace/coord/internal/change"
	"github.com/millrace-go/millrace/internal/call"
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
	p.tell(ctx)
	return nil
}

func (p *Pauses) repair(ctx context.Context, queues []string, length time.Duration, note Note) error {
	limited, cancel := call.Limit(ctx, callTime)
	defer cancel()
	blob, err := p.blobs.Get(limited, key, "")
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if _, bad := decode(blob.Body); err != nil || bad == nil {
		return fmt.Errorf("%w: the pauses can be read, so there is nothing to repair", storage.ErrInvalid)
	}
	id := rand.Text()
	return p.write(ctx, &sighting{etag: blob.ETag}, p.paused(document{ID: id}, queues, length, note, id))
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

// change writes what next makes of the document, and tells all watches.
func (p *Pauses) change(ctx context.Context, op, id string, next func(d document) (document, bool)) error {
	if err := change.Once(ctx, id, &changing{Pauses: p, id: id, next: next}, errDoubt); err != nil {
		return fmt.Errorf("pause: %s queues: %w", op, err)
	}
	p.tell(ctx)
	return nil
}

// errDoubt is the error of a change that may have been done and replaced by another one.
var errDoubt = fmt.Errorf("%w: an answer was lost, and the pauses have been changed since: whether this change came before that is unknown. List the pauses",
	storage.ErrUnavailable)

// changing is the document of the pauses that is changed.
type changing struct {
	*Pauses
	id   string
	next func(d document) (d2 document, changed bool)
	seen sighting
	want document
}

func (c *changing) Look(ctx context.Context) (id string, epoch int64, err error) {
	c.seen = sighting{}
	err = c.read(ctx, &c.seen)
	return c.seen.doc.ID, c.seen.doc.Epoch, err
}

func (c *changing) Next() (changed bool, err error) {
	c.want, changed = c.next(c.seen.doc)
	c.want.ID = c.id
	return changed, nil
}

func (c *changing) Write(ctx context.Context) error { return c.write(ctx, &c.seen, c.want) }

// tell lets all watches read the document.
func (p *Pauses) tell(ctx context.Context) {
	if err := change.Tell(ctx, p.store, topic, nil); err != nil {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't tell others of a change of pauses; they see it with their next look", slog.Any("error", err))
	}
}
