package sqlite

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A want is for messages that are not there yet: of a receive that found fewer than it asked for, or of an await. What is
// sent meanwhile is claimed for it as it is written, which saves half of the work: the second change of its row and of the
// index.
type want struct {
	by         *op // nil for an await
	got        []storage.Delivery
	max        int
	visibility time.Duration
	gen        int64
}

// want remembers a receive until the transaction ends; of several for one queue, the first.
func (w *writer) want(queue string, x *want) {
	if w.wants[queue] == nil {
		w.wants[queue] = x
	}
}

// handOver writes a message as one that is claimed already, and reports whether somebody wants it.
func (w *writer) handOver(queue string, id int64, m storage.Message) (bool, error) {
	x := w.wants[queue]
	if x == nil {
		if x = w.choose(queue); x == nil {
			return false, nil
		}
		w.wants[queue] = x
	}
	if x.by != nil { // its caller may leave, and what it has got would be hidden for nothing
		x.by.mu.Lock()
		defer x.by.mu.Unlock()
		if x.by.dropped || x.by.ctx.Err() != nil {
			delete(w.wants, queue)
			return false, nil
		}
	}
	if x.gen == 0 {
		x.gen = w.s.life.gen()
	}
	until := w.now.Add(x.visibility)
	err := w.c.stmt(`INSERT INTO messages (queue, visible, held, gen, sent, deliveries, body) VALUES (?1, ?2, 1, ?3, ?4, 1, ?5)`).
		int(1, id).int(2, micros(until)).int(3, x.gen).int(4, micros(w.now)).blob(5, m.Body).run()
	if err != nil {
		return false, err
	}
	x.got = append(x.got, storage.Delivery{
		Body: slices.Clone(m.Body), Receipt: newReceipt(w.c.lastID(), x.gen), Deliveries: 1, SentAt: time.UnixMicro(micros(w.now)),
	})
	if len(x.got) == x.max {
		delete(w.wants, queue)
	}
	w.announce(queue, until, false)
	return true, nil
}
