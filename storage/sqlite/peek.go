package sqlite

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// peekPage is how many messages one page of Peek has. Bodies may be large.
const peekPage = 32

// peekAfter reads the messages after a place of a queue that are ready at ?4, or delayed.
const peekAfter = `SELECT visible, due.id, due.sent, deliveries, body, gen, held FROM due CROSS JOIN messages USING (id)
	WHERE due.queue = ?1 AND (visible, due.id) > (?2, ?3) AND (visible <= ?4 OR NOT held)
	ORDER BY visible, due.id LIMIT ?5`

// Peek implements driver.Peeker. It yields all that wait, in the order of their places.
func (s *store) Peek(ctx context.Context, queue string) iter.Seq2[driver.Peeked, error] {
	return func(yield func(driver.Peeked, error) bool) {
		for last := (entry{}); ; {
			page, next, err := s.peek(ctx, queue, last)
			if err != nil {
				yield(driver.Peeked{}, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if len(page) < peekPage {
				return
			}
			last = next
		}
	}
}

// peek reads the page after a place, and returns the place of its last message.
func (s *store) peek(ctx context.Context, queue string, after entry) (page []driver.Peeked, last entry, err error) {
	s.count("peek", "queue", queue)
	err = s.db.Read(ctx, func(c *engine.Conn) error {
		page, last = nil, after
		id, err := s.names.lookup(c, nameKey{kindQueue, queue})
		if err != nil || id == 0 {
			return err
		}
		now := s.clock.at(time.Now())
		found := c.Stmt(peekAfter).Int(1, id).Int(2, after.visible).Int(3, after.id).Int(4, now).Int(5, peekPage)
		for {
			row, err := found.Step()
			if err != nil || !row {
				return err
			}
			last = entry{visible: found.ColInt(0), id: found.ColInt(1)}
			m := driver.Peeked{Body: found.ColBytes(4), Deliveries: int(found.ColInt(3)), SentAt: time.UnixMicro(found.ColInt(2))}
			if gen, held := found.ColInt(5), found.ColInt(6) != 0; !held {
				m.Receipt = entry{id: last.id, visible: last.visible, gen: gen}.receipt()
			}
			if last.visible > now {
				m.ReadyAt = time.UnixMicro(last.visible)
			}
			page = append(page, m)
		}
	})
	return page, last, err
}
