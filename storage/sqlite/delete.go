package sqlite

import (
	"cmp"
	"slices"

	"github.com/millrace-go/millrace/storage/driver"
)

// A removal is carried out at the end of its transaction. The messages that several callers delete are often
// neighbours, and one statement deletes neighbours.
type removal struct {
	queue int64
	entry
	gone *bool // set if the receipt was the message's newest; the caller may read it once it has the answer
}

// delete has a message removed before the transaction ends. gone is set by then if the receipt was the newest,
// otherwise cleared.
func (w *writer) delete(queue string, r driver.Receipt, gone *bool) error {
	*gone = false
	queueID, err := w.find(kindQueue, queue)
	if err != nil {
		return err
	}
	if d, ok := parseReceipt(r); ok && queueID != 0 {
		w.removals = append(w.removals, removal{queueID, d, gone})
	}
	return nil
}

// deleteAll carries out the transaction's removals. One statement deletes neighbours that were claimed together.
func (w *writer) deleteAll() error {
	all := w.removals
	slices.SortStableFunc(all, func(a, b removal) int { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.id, b.id)) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].follows(all[n-1]) {
			n++
		}
		run := all[:n]
		all = all[n:]
		whole, err := n > 1, error(nil)
		if whole {
			whole, err = w.deleteRun(run[0], run[n-1].id)
		}
		for _, d := range run {
			*d.gone = whole
			if err == nil && !whole {
				*d.gone, err = w.deleteOne(d)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follows tells whether a message is the next one and was claimed together with the one before.
func (d removal) follows(before removal) bool {
	return d.queue == before.queue && d.id == before.id+1 && d.gen == before.gen && d.visible == before.visible
}

// deleteRun removes the messages from first to the id last if all of them are where first is. It reports whether they
// were.
func (w *writer) deleteRun(first removal, last int64) (whole bool, err error) {
	s := w.c.stmt(`SELECT count(*) FROM due WHERE queue = ?1 AND visible = ?2 AND id BETWEEN ?3 AND ?4 AND gen = ?5`).
		int(1, first.queue).int(2, first.visible).int(3, first.id).int(4, last).int(5, first.gen)
	if row, err := s.step(); !row {
		return false, err
	}
	n := s.colInt(0)
	s.reset()
	if n != last-first.id+1 {
		return false, nil
	}
	err = w.c.stmt(`DELETE FROM due WHERE queue = ?1 AND visible = ?2 AND id BETWEEN ?3 AND ?4`).
		int(1, first.queue).int(2, first.visible).int(3, first.id).int(4, last).run()
	if err != nil {
		return false, err
	}
	return true, w.c.stmt(`DELETE FROM messages WHERE id BETWEEN ?1 AND ?2`).int(1, first.id).int(2, last).run()
}

// deleteOne removes a message, and reports whether the receipt was its newest.
func (w *writer) deleteOne(d removal) (bool, error) {
	err := w.c.stmt(`DELETE FROM due WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4`).
		int(1, d.queue).int(2, d.visible).int(3, d.id).int(4, d.gen).run()
	if err != nil || w.c.changes() == 0 {
		return false, err
	}
	return true, w.c.stmt(`DELETE FROM messages WHERE id = ?1`).int(1, d.id).run()
}
