package sqlite

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A want is for messages that are not there yet: of a receive that found fewer than it asked for, or of an await. What is
// sent meanwhile is claimed for it as it is written, which saves a move.
type want struct {
	by         *op // nil for an await
	got        []driver.Delivery
	max        int
	visibility time.Duration
	gen        int64
	visible    int64
}

// want remembers a receive until the transaction ends; of several for one queue, the first.
func (w *writer) want(queue string, x *want) {
	if w.wants[queue] == nil {
		w.wants[queue] = x
	}
}

// handOver writes a message as one that is claimed already, and reports whether somebody wants it.
func (w *writer) handOver(queue string, id int64, m driver.Message) (done bool, err error) {
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
			return w.handOver(queue, id, m) // to who awaits, whose want has no caller to lock
		}
	}
	if x.gen == 0 {
		x.gen, x.visible = w.s.life.gen(), w.after(x.visibility) // alike for all: they are deleted in one statement
	}
	d := entry{visible: x.visible, held: 1, gen: x.gen, sent: micros(w.now), deliveries: 1}
	d.id, err = w.insert(id, m.Body, d)
	if err != nil {
		return false, err
	}
	x.got = append(x.got, driver.Delivery{
		Body: slices.Clone(m.Body), Receipt: d.receipt(), Deliveries: 1, SentAt: time.UnixMicro(d.sent),
	})
	if len(x.got) == x.max {
		delete(w.wants, queue)
	}
	w.announce(queue, w.now.Add(x.visibility), false)
	return true, nil
}
