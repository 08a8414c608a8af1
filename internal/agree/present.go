package agree

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Presence tells which processes live that have a row each in a partition. A process writes its row again at each
// beat. It counts as dead when another process has seen the row unchanged for longer than beats are apart.
type Presence[R any] struct {
	Rows      *storage.Table
	Partition string

	// Decode reads a row, and tells for how long the row of a dead process must have been unchanged. A row that isn't ok
	// is passed over.
	Decode func(key string, data []byte) (row R, silence time.Duration, ok bool)

	Seen map[string]Present[R] // the rows of the last look, by key, also those of dead processes

	asked time.Time // the last look began
}

// A Present is a row as this process has seen it.
type Present[R any] struct {
	Row   R
	Alive bool      // at the last look
	Dies  time.Time // the process counts as dead from then on, unless its row changes
	After time.Time // the row was written after that; zero: nobody knows

	etag storage.ETag
}

// Look brings the rows within a range up to date. After an error they stay as they were.
func (p *Presence[R]) Look(ctx context.Context, within storage.RowRange) error {
	began, seen := time.Now(), map[string]Present[R]{}
	for r, err := range p.Rows.Query(ctx, p.Partition, within) {
		if err != nil {
			return err
		}
		s, known := p.Seen[r.Key]
		if !known || s.etag != r.ETag {
			row, silence, ok := p.Decode(r.Key, r.Data)
			if !ok {
				continue
			}
			// The time is taken after the read, so it isn't before the row was written.
			s = Present[R]{Row: row, Dies: time.Now().Add(silence), After: p.asked, etag: r.ETag}
		}
		s.Alive = s.Dies.After(began)
		seen[r.Key] = s
	}
	p.Seen, p.asked = seen, began
	return nil
}

// Bury deletes the row of a process that counts as dead, if the row is still so. Others try the same, and one succeeds.
// A process that was only slow comes back with its next beat. A failure does no harm.
func (p *Presence[R]) Bury(ctx context.Context, key string) {
	_ = p.Rows.Delete(ctx, p.Partition, key, storage.Condition{IfMatch: p.Seen[key].etag})
}
