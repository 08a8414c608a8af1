package sqlite

import (
	"context"
	"iter"

	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Queues implements driver.Lister. The names are few, so they are one page.
func (s *store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.count("list", "queue", "")
		var all []string
		err := s.db.Read(ctx, func(c *engine.Conn) error {
			all = nil
			found := c.Stmt("SELECT name FROM names WHERE kind = ?1 AND EXISTS (SELECT 1 FROM due WHERE due.queue = names.id)").Int(1, kindQueue)
			for {
				row, err := found.Step()
				if err != nil || !row {
					return err
				}
				all = append(all, found.ColText(0))
			}
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range all {
			if !yield(name, nil) {
				return
			}
		}
	}
}
