package engine

import (
	"log/slog"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// A Session holds what the ops of one transaction share. The writer's goroutine calls it.
//
//	Begin ── op, op, … ── BeforeCommit ── COMMIT ──▶ Committed ── answers ── Answered
//	                  └────────── failure ────────▶ RolledBack
type Session interface {
	// Begin begins a transaction. All its ops happen at now.
	Begin(now time.Time)

	// BeforeCommit writes what the ops have left to the end. An error undoes the transaction.
	BeforeCommit() error

	// Committed is called when the transaction is in the file, before its callers are answered.
	Committed()

	// Answered is called once they are answered, but for late ops.
	Answered()

	// RolledBack is called when a transaction that began was undone. Its ops may run again, each in a transaction of its
	// own.
	RolledBack()
}

// A writer owns the connection that writes, and runs groups of ops in transactions. It doesn't know what they write.
// All fields belong to its goroutine.
type writer struct {
	file    *file
	c       *Conn
	session Session
	normal  bool // no commit waits for the disk

	ops      <-chan *Op
	gatherer gatherer
	mode     syncMode
	syncer   *syncer
	logEnd   logEnd
	ckpt     *checkpointer
	tidier   *tidier
	watch    writeWatch
}

func newWriter(f *file, c *Conn, ops <-chan *Op, session Session, normal bool, log *slog.Logger) (*writer, error) {
	w := &writer{file: f, c: c, session: session, normal: normal, ops: ops, gatherer: gatherer{ops: ops}, mode: syncMode{c: c}, watch: writeWatch{path: c.FilePath(), log: log}}
	err := c.Exec(
		"PRAGMA synchronous = FULL",
		"PRAGMA cache_size = -16000",
		"PRAGMA temp_store = MEMORY",
		"PRAGMA wal_autocheckpoint = 0",
		"PRAGMA journal_size_limit = 16777216",
	)
	if err == nil {
		err = w.mode.relax(normal)
	}
	if err != nil {
		return nil, err
	}
	c.noteLogPages() // not before wal_autocheckpoint is set, which stops it
	page, err := c.OneInt("PRAGMA page_size")
	if err != nil {
		return nil, err
	}
	frame := logFrameHeader + page
	file, err := f.openLog(c.LogPath())
	if err != nil {
		return nil, err
	}
	w.ckpt, err = newCheckpointer(f, c, readerWatch{path: c.LogPath(), frame: frame, limit: logHeld, log: log})
	if err != nil {
		file.Close()
		return nil, err
	}
	w.tidier = newTidier(f, c, &w.mode, w.ckpt)
	w.syncer = newSyncer(f, file)
	w.logEnd = logEnd{c: c, log: file, frame: frame, sync: w.syncer.syncSoon}
	return w, nil
}

// loop runs groups of ops until closing is closed. All are answered when it returns.
func (w *writer) loop(closing <-chan struct{}) {
	defer w.syncer.finish()
	group := make([]*Op, 0, maxGroup)
	for {
		if len(w.ops) == 0 {
			w.mode.relax(w.normal) // now, so that a lone op need not wait for it; a failure is tried again
		}
		select {
		case o := <-w.ops:
			group = w.gatherer.gather(group[:0], o)
			w.do(group)
			clear(group)
			if w.ckpt.noteWritten() { // a look of an idle program writes nothing
				w.tidier.runLater()
			}
		case did := <-w.ckpt.done:
			w.ckpt.finish(did)
		case <-w.tidier.timer.C:
			w.rest()
		case <-closing:
			for {
				select {
				case o := <-w.ops:
					w.do(append(group[:0], o))
				default:
					return
				}
			}
		}
	}
}

// rest does what waits for a while without ops, or among them.
func (w *writer) rest() {
	switch {
	case w.file.check() != nil:
	case w.logEnd.atRest():
		w.tidier.runIn(tidyPause)
	default:
		w.tidier.run()
	}
}

// do runs a group and answers. When the group can't be committed, each op gets a transaction of its own. So one op
// that is too large for the disk, say, does not take the others with it.
func (w *writer) do(group []*Op) {
	began := time.Now()
	err := w.transact(group)
	if e := asError(err); len(group) > 1 && e != nil && e.primary() != sqlite3.SQLITE_IOERR && !busy(err) {
		for i := range group {
			w.do(group[i : i+1])
		}
		return
	}
	if err == nil && w.mode.relaxed == w.normal { // other groups take less time, and are not worth gathering for
		w.gatherer.took(time.Since(began))
	}
	w.gatherer.answering(group)
	var late []*Op
	for _, o := range group {
		if err == nil && o.Late && w.mode.relaxed && !w.normal {
			late = append(late, o)
		} else {
			o.answer(err)
		}
	}
	if len(late) > 0 {
		w.syncer.answerSynced(late)
	}
	if err == nil {
		w.session.Answered()
	}
}

// transact runs a group in one transaction. The error is of the whole group: nothing of it was done.
func (w *writer) transact(group []*Op) (err error) {
	relaxed := true
	for _, o := range group {
		relaxed = relaxed && (o.Relaxed || o.Late)
	}
	if err := w.mode.relax(relaxed || w.normal); err != nil {
		return err
	}
	began := time.Now()
	err = retry(allGone(group), w.c.Stmt("BEGIN IMMEDIATE").Run)
	now := time.Now()
	w.watch.see(now.Sub(began), err)
	if err != nil {
		return named(w.watch.path, err)
	}
	w.session.Begin(now)
	if err := w.commit(group); err != nil {
		if w.c.InTransaction() {
			w.c.Stmt("ROLLBACK").Run() // the first error tells more
		}
		w.session.RolledBack()
		return err
	}
	w.session.Committed()
	return nil
}

// commit runs the ops of the transaction that has begun, and commits it.
func (w *writer) commit(group []*Op) error {
	for _, early := range []bool{true, false} { // calls that wait together may come in any order
		for _, o := range group {
			if o.Early == early {
				if err := o.run(); err != nil {
					return err
				}
			}
		}
	}
	if err := w.session.BeforeCommit(); err != nil {
		return err
	}
	if err := w.file.check(); err != nil {
		return err
	}
	w.logEnd.beforeCommit()
	if err := w.c.Stmt("COMMIT").Run(); err != nil {
		return err
	}
	if err := w.file.checkLog(w.syncer.log, w.c); err != nil {
		return err
	}
	return w.file.checkNow() // the commit may have gone to a file that was lost meanwhile
}

// close writes the log back, as far as other processes allow, after the writer's goroutine has ended. The last
// process's Close does the rest.
func (w *writer) close() (err error) {
	w.tidier.timer.Stop()
	w.ckpt.close()
	w.syncer.log.Close()
	if (w.ckpt.wrote || w.c.pagesWritten() > 0) && w.file.checkNow() == nil {
		err = w.c.Exec(passiveCheckpoint)
	}
	if err != nil && busy(err) {
		return nil
	}
	return err
}
