package sqlite

import (
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// A tx is what the ops of one transaction share. There is one for each store. The writer's goroutine alone uses it, in
// ops and as an engine.Session.
type tx struct {
	s   *store
	c   *engine.Conn
	now time.Time // of the transaction
	at  int64     // likewise, by the file's clock

	noted    int64 // the file's time that was written down last
	names    foundNames
	guarded  guarded
	inserts  inserts
	removals removals
	wants    wants
	rings    []due
}

// due tells when a queue has something.
type due struct {
	queue string
	at    time.Time
	sent  bool // other processes should know, too
}

func newTx(s *store) *tx {
	w := &tx{s: s, c: s.db.Conn()}
	w.names = foundNames{c: w.c, known: s.names}
	w.guarded = guarded{c: w.c, names: &w.names}
	w.inserts.c = w.c
	w.removals.c = w.c
	w.wants = wants{awaits: &s.awaits, byQueue: map[string]*want{}}
	return w
}

// write runs an op's work in a transaction, and waits until it is committed.
func (s *store) write(o *engine.Op, run func(w *tx) error) error {
	o.Run = func() error { return run(s.tx) }
	return s.db.Write(o)
}

// Begin implements engine.Session. One time for all ops lets messages that are sent together be placed together.
func (w *tx) Begin(now time.Time) {
	w.now, w.at = now, w.s.clock.at(now)
	w.names.list, w.rings = w.names.list[:0], w.rings[:0]
}

// BeforeCommit implements engine.Session.
func (w *tx) BeforeCommit() error {
	if len(w.inserts.list) > 0 {
		if err := w.noteTime(); err != nil {
			return err
		}
	}
	if err := w.inserts.place(); err != nil {
		return err
	}
	return w.removals.carryOut()
}

// Committed implements engine.Session.
func (w *tx) Committed() {
	w.s.names.add(w.names.list)
	w.forget()
}

// Answered implements engine.Session. It comes after the answers: a consumer can handle its message while the next
// group commits.
func (w *tx) Answered() {
	w.wants.settle(true)
	w.s.publish(w.rings)
}

// RolledBack implements engine.Session.
func (w *tx) RolledBack() {
	w.forget()
	w.wants.settle(false)
}

// forget drops what refers to the callers' memory.
func (w *tx) forget() {
	w.inserts.list = w.inserts.list[:0]
	clear(w.removals.list)
	w.removals.list = w.removals.list[:0]
	clear(w.wants.byQueue)
}

// after returns the file's time at which d will have passed since the transaction began.
func (w *tx) after(d time.Duration) int64 {
	at := w.at + d.Microseconds()
	if d%time.Microsecond > 0 { // never early
		at++
	}
	return at
}

// micros is a time of the wall clock as it is stored.
func micros(t time.Time) int64 { return t.UnixMicro() }

var (
	_ driver.Committer = (*store)(nil)
	_ engine.Session   = (*tx)(nil)
)
