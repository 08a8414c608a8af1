package sqlite

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A want asks for messages that are not there yet. It belongs to a receive that found fewer than it asked for, or to
// an await. A message that is sent meanwhile is claimed for it as it is written, which saves a move.
type want struct {
	by         *op // nil for an await
	got        []driver.Delivery
	max        int
	visibility time.Duration
	gen        int64
	visible    int64
}

// want remembers a receive until the transaction ends. Of several for one queue it remembers the first.
func (w *writer) want(queue string, x *want) {
	if w.wants[queue] == nil {
		w.wants[queue] = x
	}
}

// handOver writes a message as claimed already, and reports whether a want took it.
func (w *writer) handOver(queue string, id int64, m driver.Message) (done bool, err error) {
	x := w.wants[queue]
	if x == nil {
		if x = w.choose(queue); x == nil {
			return false, nil
		}
		w.wants[queue] = x
	}
	if x.by != nil { // its caller may leave, and its messages would be hidden for nothing
		x.by.mu.Lock()
		defer x.by.mu.Unlock()
		if x.by.dropped || x.by.ctx.Err() != nil {
			delete(w.wants, queue)
			return w.handOver(queue, id, m) // to an await, whose want has no caller to lock
		}
	}
	if x.gen == 0 {
		x.gen, x.visible = w.s.peers.Generation(), w.after(x.visibility) // the same for all, so that one statement can delete them
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
