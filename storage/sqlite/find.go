package sqlite

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// findByKey reads the messages of a queue with a key. A message that was received is not in its place any more, or is
// held there.
const findByKey = `SELECT messages.id, messages.sent, body, due.visible, gen, deliveries
	FROM keys JOIN messages ON messages.id = keys.id AND messages.queue = keys.queue AND messages.key = keys.key
	LEFT JOIN due ON due.queue = messages.queue AND due.visible = hidden AND due.id = messages.id AND NOT held
	WHERE keys.queue = ?1 AND keys.key = ?2`

// removeKeys removes, of the next rows of keys, those whose messages are gone.
const removeKeys = `DELETE FROM keys WHERE id IN (
	SELECT some.id FROM (SELECT * FROM keys WHERE id >= ?1 ORDER BY id LIMIT 4) AS some
	LEFT JOIN messages ON messages.id = some.id AND messages.queue = some.queue AND messages.key = some.key
	WHERE messages.id IS NULL)`

// keep lets a message that was just inserted be found by its key. It removes as many rows of keys as may have become
// useless meanwhile, and more, from a random place on.
func (x *inserts) keep(queueID, id int64, key string) error {
	err := x.c.Stmt(`INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3)`).Int(1, id).Int(2, queueID).Text(3, key).Run()
	if err != nil {
		return err
	}
	return x.c.Stmt(removeKeys).Int(1, rand.Int64N(id+1)).Run()
}

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
