package sqlite

import (
	"context"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Commit implements driver.Committer: the whole unit of work in one transaction. The write comes first, because it
// alone can fail by a condition.
func (s *store) Commit(ctx context.Context, work driver.Work) (driver.Committed, error) {
	size := 100 * len(work.Delete)
	s.count("commit", "store", "")
	if x := work.Rows; x != nil {
		size += rowsSize(x.Puts)
	}
	if work.Write != nil {
		size += len(work.Write.Body) + 100
	}
	for _, x := range work.Send {
		size += messageSize(x.Message)
	}
	var did driver.Committed
	gone := make([]bool, len(work.Delete))
	err := s.write(&engine.Op{Ctx: ctx, Size: size}, func(w *tx) (err error) {
		did, err = w.commit(work, gone)
		return err
	})
	if err != nil {
		return driver.Committed{}, err
	}
	for i, x := range work.Delete {
		if !gone[i] {
			did.Stale = append(did.Stale, x)
		}
	}
	return did, nil
}

// commit does the work. By the end of the transaction it has set gone for each deletion whose receipt was not stale.
func (w *tx) commit(work driver.Work, gone []bool) (did driver.Committed, err error) {
	if x := work.Write; x != nil {
		if did.ETag, err = w.guarded.putBlob(x.Container, x.Key, x.Body, w.now, x.If); err != nil {
			return did, err
		}
	}
	if x := work.Rows; x != nil {
		if err := w.guarded.putRows(x.Table, x.Partition, x.Puts); err != nil {
			return did, err
		}
	}
	if err := w.send(work.Send); err != nil {
		return did, err
	}
	for i, x := range work.Delete {
		if err := w.delete(x.Queue, x.Receipt, &gone[i]); err != nil {
			return did, err
		}
	}
	return did, nil
}
