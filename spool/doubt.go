package spool

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// mostDoubts is how many failed writes may be unresolved until the spool takes nothing: each needs memory, and a
// deletion.
const mostDoubts = 1000

var errDoubts = fmt.Errorf("%w: too many writes of the file have an unknown outcome", storage.ErrUnavailable)

// resolve removes from the file what must not be there. The file has the writes one after the other, so an entry that
// its deletion doesn't find never comes.
func (s *Spool) resolve(ctx context.Context) error {
	for all := s.inDoubt(); len(all) > 0; all = s.inDoubt() {
		if err := s.lock.hold(); err != nil {
			return err // they are another program's now
		}
		if _, err := erase(ctx, s.blobs, all, s.release); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes entries from the file, and calls gone for each that isn't there any more. It returns the others.
func erase(ctx context.Context, blobs *storage.Blobs, all []*entry, gone func(*entry) bool) (left []*entry, err error) {
	limited, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	failed := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(batchEntries)
	for i, e := range all {
		g.Go(func() error {
			failed[i] = blobs.Delete(limited, e.key(), storage.Condition{})
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	for i, e := range all {
		if failed[i] != nil && !errors.Is(failed[i], storage.ErrNotFound) {
			left, err = append(left, e), failed[i]
			continue
		}
		gone(e)
	}
	return left, err
}
