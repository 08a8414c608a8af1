package values

import (
	"context"

	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/storage"
)

// An Outcome is what became of one change.
type Outcome struct {
	Err   error
	Ended Ended
}

// Ended says what became of the delivery of a change.
type Ended int

const (
	StillThere Ended = iota // no unit of work has ended it: it failed, or there was none to end
	Deleted                 // its message was deleted in the unit of work
	Stale                   // another worker has its message, or has deleted it
)

// A Commit commits a unit of work, and in it ends the deliveries of the changes with these indices. It returns the new
// ETag of the document that the work writes, and for each of ends whether it is Deleted or Stale. After an error none
// of them counts as ended. It is called again after a lost race, perhaps with other indices.
type Commit func(ctx context.Context, work storage.Work, ends []int) (etag storage.ETag, ended []Ended, err error)

// Of returns the Commit for some of the changes: change i of them is change at[i] of all. That of nil is nil.
func (c Commit) Of(at ...int) Commit {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []Ended, error) {
		all := make([]int, len(ends))
		for i, end := range ends {
			all[i] = at[end]
		}
		return c(ctx, work, all)
	}
}

// end commits the work, and ends the deliveries of the changes that are done in it.
func (u *unit[V]) end(work storage.Work) error {
	commit, ends := u.commit, u.done
	if commit == nil {
		commit, ends = u.c.commitAlone, nil
	}
	if work.Write == nil && len(work.Send) == 0 && len(ends) == 0 {
		return nil
	}
	ctx, span := u.c.channels.Tracer().Commit(u.ctx, u.c.name, len(u.done))
	etag, ended, err := commit(ctx, work, ends)
	if storage.LostRace(err) { // the work is done again, so nothing has failed
		tracing.LoseRace(span)
		tracing.End(span, nil)
		return err
	}
	tracing.End(span, err)
	if err != nil {
		return err
	}
	if work.Write != nil {
		u.doc.etag = etag
	}
	for i, at := range ends {
		u.outs[at].Ended = ended[i]
	}
	return nil
}

// commitAlone is the Commit where there are no deliveries to end.
func (c *Collection[V]) commitAlone(ctx context.Context, work storage.Work, _ []int) (storage.ETag, []Ended, error) {
	done, err := c.channels.Store().Commit(ctx, work)
	return done.ETag, nil, err
}
