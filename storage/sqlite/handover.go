package sqlite

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// A want asks for messages that are not there yet. It belongs to a receive that found fewer than it asked for, or to
// an await. A message that is sent meanwhile is claimed for it as it is written, which saves a move.
type want struct {
	by         *engine.Op // nil for an await
	got        []driver.Delivery
	max        int
	visibility time.Duration
	gen        int64
	visible    int64
}

// wants are those of one transaction. Of several for one queue it has the first.
type wants struct {
	awaits  *awaits
	byQueue map[string]*want
	chosen  []chosen // the awaits among them
}

// add remembers a receive until the transaction ends.
func (l *wants) add(queue string, x *want) {
	if l.byQueue[queue] == nil {
		l.byQueue[queue] = x
	}
}

// find returns the want for a queue, an await if no receive wants more, or nil.
func (l *wants) find(queue string, now time.Time) *want {
	x := l.byQueue[queue]
	if x == nil {
		if x = l.choose(queue, now); x != nil {
			l.byQueue[queue] = x
		}
	}
	return x
}

// handOver writes a message as claimed already, and reports whether a want took it.
func (w *tx) handOver(queue string, id int64, m driver.Message) (done bool, err error) {
	x := w.wants.find(queue, w.now)
	if x == nil {
		return false, nil
	}
	if x.by != nil {
		if !x.by.HoldCaller() { // its messages would be hidden for nothing
			delete(w.wants.byQueue, queue)
			return w.handOver(queue, id, m) // to an await, whose want has no caller to hold
		}
		defer x.by.ReleaseCaller()
	}
	if x.gen == 0 {
		x.gen, x.visible = w.s.peers.Generation(), w.after(x.visibility) // the same for all, so that one statement can delete them
	}
	d := entry{visible: x.visible, held: 1, gen: x.gen, sent: micros(w.now), deliveries: 1}
	d.id, err = w.inserts.insert(id, m, d)
	if err != nil {
		return false, err
	}
	x.got = append(x.got, driver.Delivery{
		Body: slices.Clone(m.Body), Receipt: d.receipt(), Deliveries: 1, SentAt: time.UnixMicro(d.sent),
	})
	if len(x.got) == x.max {
		delete(w.wants.byQueue, queue)
	}
	w.announce(queue, w.now.Add(x.visibility), false)
	return true, nil
}
