package sqlite

import (
	"cmp"
	"slices"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
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
func (w *tx) delete(queue string, r driver.Receipt, gone *bool) error {
	*gone = false
	queueID, err := w.names.find(kindQueue, queue)
	if err != nil {
		return err
	}
	if d, ok := parseReceipt(r); ok && queueID != 0 {
		w.removals.list = append(w.removals.list, removal{queueID, d, gone})
	}
	return nil
}

// removals are those of one transaction.
type removals struct {
	c    *engine.Conn
	list []removal
}

// carryOut deletes the messages. One statement deletes neighbours that were claimed together.
func (r *removals) carryOut() error {
	all := r.list
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
			whole, err = r.deleteRun(run[0], run[n-1].id)
		}
		for _, d := range run {
			*d.gone = whole
			if err == nil && !whole {
				*d.gone, err = r.deleteOne(d)
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
func (r *removals) deleteRun(first removal, last int64) (whole bool, err error) {
	s := r.c.Stmt(`SELECT count(*) FROM due WHERE queue = ?1 AND visible = ?2 AND id BETWEEN ?3 AND ?4 AND gen = ?5`).
		Int(1, first.queue).Int(2, first.visible).Int(3, first.id).Int(4, last).Int(5, first.gen)
	if row, err := s.Step(); !row {
		return false, err
	}
	n := s.ColInt(0)
	s.Reset()
	if n != last-first.id+1 {
		return false, nil
	}
	err = r.c.Stmt(`DELETE FROM due WHERE queue = ?1 AND visible = ?2 AND id BETWEEN ?3 AND ?4`).
		Int(1, first.queue).Int(2, first.visible).Int(3, first.id).Int(4, last).Run()
	if err != nil {
		return false, err
	}
	return true, r.c.Stmt(`DELETE FROM messages WHERE id BETWEEN ?1 AND ?2`).Int(1, first.id).Int(2, last).Run()
}

// deleteOne removes a message, and reports whether the receipt was its newest.
func (r *removals) deleteOne(d removal) (bool, error) {
	err := r.c.Stmt(`DELETE FROM due WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4`).
		Int(1, d.queue).Int(2, d.visible).Int(3, d.id).Int(4, d.gen).Run()
	if err != nil || r.c.Changes() == 0 {
		return false, err
	}
	return true, r.c.Stmt(`DELETE FROM messages WHERE id = ?1`).Int(1, d.id).Run()
}
