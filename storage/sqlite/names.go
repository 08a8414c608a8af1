package sqlite

import (
	"sync"

	"github.com/millrace-go/millrace/storage/driver"
)

// Kinds of names. They are stored in the file.
const (
	kindQueue     = 1
	kindContainer = 2
	kindTable     = 3
)

type nameKey struct {
	kind int64
	name string
}

type named struct {
	nameKey
	id int64
}

// names knows the numbers of the queues, containers and tables in the file. The numbers never change.
type names struct {
	mu  sync.RWMutex
	ids map[nameKey]int64
}

func newNames() *names { return &names{ids: map[nameKey]int64{}} }

func (n *names) get(k nameKey) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, ok := n.ids[k]
	return id, ok
}

func (n *names) add(list []named) {
	if len(list) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range list {
		n.ids[x.nameKey] = x.id
	}
}

// lookup returns a name's number, or 0 when the name was never written to.
func (n *names) lookup(c *conn, k nameKey) (int64, error) {
	if id, ok := n.get(k); ok {
		return id, nil
	}
	id, err := selectName(c, k)
	if err == nil && id != 0 {
		n.add([]named{{k, id}})
	}
	return id, err
}

func selectName(c *conn, k nameKey) (int64, error) {
	s := c.stmt("SELECT id FROM names WHERE kind = ?1 AND name = ?2").int(1, k.kind).text(2, k.name)
	if row, err := s.step(); !row {
		return 0, err
	}
	id := s.colInt(0)
	s.reset()
	return id, nil
}

// find is lookup inside the writer's transaction.
func (w *writer) find(kind int64, name string) (int64, error) {
	k := nameKey{kind, name}
	if id, ok := w.s.names.get(k); ok {
		return id, nil
	}
	for _, x := range w.effects.names {
		if x.nameKey == k {
			return x.id, nil
		}
	}
	id, err := selectName(w.c, k)
	if err == nil && id != 0 {
		w.effects.names = append(w.effects.names, named{k, id})
	}
	return id, err
}

// need is find, but makes a missing name.
func (w *writer) need(kind int64, name string) (int64, error) {
	id, err := w.find(kind, name)
	if err != nil || id != 0 {
		return id, err
	}
	s := w.c.stmt("INSERT INTO names (kind, name) VALUES (?1, ?2) RETURNING id").int(1, kind).text(2, name)
	if row, err := s.step(); !row {
		return 0, err
	}
	id = s.colInt(0)
	if err := s.run(); err != nil {
		return 0, err
	}
	w.effects.names = append(w.effects.names, named{nameKey{kind, name}, id})
	return id, nil
}

// nameFor is need for a write under a condition. With IfMatch it makes no name.
func (w *writer) nameFor(kind int64, name string, cond driver.Condition) (int64, error) {
	if cond.IfMatch == "" {
		return w.need(kind, name)
	}
	id, err := w.find(kind, name)
	if err == nil && id == 0 {
		err = driver.ErrPrecondition
	}
	return id, err
}
