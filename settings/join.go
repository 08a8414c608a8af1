package settings

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

const joinTries = 10

// enter runs the version in force in a node that starts, until no candidate can come into force without its answer. It
// is an error if it can't run that version.
func enter[T any](ctx context.Context, s *follower[T]) error {
	for {
		d := s.seen.doc
		if err := s.run(d.Stable, d.Values); err != nil {
			err = fmt.Errorf("version %d is in force, and this program can't run it; go back by \"settings back -of %s\", set what fits it, or start a program that can: %w", d.Stable, s.name, err)
			if !s.beaten.IsZero() {
				_ = s.remove(ctx, s.id) // else others wait for it until it counts as dead
			}
			return err
		}
		s.epoch, s.source = d.Epoch, FromStore
		s.keep(ctx, d)
		s.beat(ctx) // whoever proposes a change from now on asks this node
		if join(ctx, s); s.seen.etag == "" || s.seen.doc.Stable == d.Stable {
			s.publish(true)
			return nil
		}
	}
}

// join is called when this node has written its first row, or one after a silence. Somebody who read the rows before
// that may still settle a candidate, or end its last stage, without this node's answer. That is a guarded write of the
// document that they read before the rows. So join writes the document once more: then they must read both again. Where
// there is no candidate, whoever ends the next one reads the rows later. changed reports that the document has changed.
func join[T any](ctx context.Context, s *follower[T]) (changed bool) {
	before := s.seen.etag
	for range joinTries {
		if s.read(ctx, &s.seen) != nil {
			break // it tries again with its next row
		}
		if s.seen.doc.Candidate == nil {
			s.joined = true
			break
		}
		err := s.write(ctx, &s.seen, s.seen.doc)
		if err == nil {
			s.joined = true
			break
		}
		if !storage.LostRace(err) {
			break
		}
	}
	return s.seen.etag != before
}
