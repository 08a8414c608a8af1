package sqlite

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// findByKey reads the messages of a queue with a key. A message that was received is not in its place any more, or is
// held there.
const findByKey = `SELECT messages.id, messages.sent, body, due.visible, gen, deliveries FROM messages LEFT JOIN due
	ON due.queue = messages.queue AND due.visible = hidden AND due.id = messages.id AND NOT held
	WHERE messages.queue = ?1 AND key = ?2`

// Find implements driver.Finder. It is one statement, so it sees one state.
func (s *store) Find(ctx context.Context, queue, key string) ([]driver.Delivery, error) {
	s.count("find", "queue", queue)
	var got []driver.Delivery
	err := s.db.Read(ctx, func(c *engine.Conn) error {
		got = nil
		id, err := s.names.lookup(c, nameKey{kindQueue, queue})
		if err != nil || id == 0 {
			return err
		}
		found := c.Stmt(findByKey).Int(1, id).Text(2, key)
		for {
			row, err := found.Step()
			if err != nil || !row {
				return err
			}
			x := driver.Delivery{Body: found.ColBytes(2), SentAt: time.UnixMicro(found.ColInt(1))}
			if d := (entry{id: found.ColInt(0), visible: found.ColInt(3), gen: found.ColInt(4)}); d.gen != 0 { // else it is in flight
				x.Receipt, x.Deliveries = d.receipt(), int(found.ColInt(5))
			}
			got = append(got, x)
		}
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}
