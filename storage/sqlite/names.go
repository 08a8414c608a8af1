package sqlite

import (
	"sync"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
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
func (n *names) lookup(c *engine.Conn, k nameKey) (int64, error) {
	if id, ok := n.get(k); ok {
		return id, nil
	}
	id, err := selectName(c, k)
	if err == nil && id != 0 {
		n.add([]named{{k, id}})
	}
	return id, err
}

func selectName(c *engine.Conn, k nameKey) (int64, error) {
	s := c.Stmt("SELECT id FROM names WHERE kind = ?1 AND name = ?2").Int(1, k.kind).Text(2, k.name)
	if row, err := s.Step(); !row {
		return 0, err
	}
	id := s.ColInt(0)
	s.Reset()
	return id, nil
}

// foundNames are the names that a transaction has found or made. All know them once it is committed.
type foundNames struct {
	c     *engine.Conn
	known *names
	list  []named
}

// find is lookup inside the writer's transaction.
func (f *foundNames) find(kind int64, name string) (int64, error) {
	k := nameKey{kind, name}
	if id, ok := f.known.get(k); ok {
		return id, nil
	}
	for _, x := range f.list {
		if x.nameKey == k {
			return x.id, nil
		}
	}
	id, err := selectName(f.c, k)
	if err == nil && id != 0 {
		f.list = append(f.list, named{k, id})
	}
	return id, err
}

// need is find, but makes a missing name.
func (f *foundNames) need(kind int64, name string) (int64, error) {
	id, err := f.find(kind, name)
	if err != nil || id != 0 {
		return id, err
	}
	s := f.c.Stmt("INSERT INTO names (kind, name) VALUES (?1, ?2) RETURNING id").Int(1, kind).Text(2, name)
	if row, err := s.Step(); !row {
		return 0, err
	}
	id = s.ColInt(0)
	if err := s.Run(); err != nil {
		return 0, err
	}
	f.list = append(f.list, named{nameKey{kind, name}, id})
	return id, nil
}

// needFor is need for a write under a condition. With IfMatch it makes no name.
func (f *foundNames) needFor(kind int64, name string, cond driver.Condition) (int64, error) {
	if cond.IfMatch == "" {
		return f.need(kind, name)
	}
	id, err := f.find(kind, name)
	if err == nil && id == 0 {
		err = driver.ErrPrecondition
	}
	return id, err
}
