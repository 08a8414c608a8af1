package sqlite

import "time"

// Copying the log back into the file (a checkpoint) takes some milliseconds. SQLite by itself does it inside a
// commit, so the slowest writes would wait for it. Therefore a second connection copies, beside the writer. It can't
// finish while the writer goes on writing, and only a log that is copied whole is overwritten from its beginning
// rather than made longer. So the writer itself copies the few pages that came meanwhile.
const (
	ckptPages = 4000  // begin beside the writer (16 MB)
	ckptFew   = 2000  // the writer copies so many itself
	ckptLimit = 16384 // the log is longer than 64 MB although it is being copied: the writer copies all, at once
)

// SQLite uses free pages again. Free pages above a reserve are given back to the file system, in steps short enough
// for a caller to wait for. While there is nothing else to do the steps follow each other. Otherwise they are so few
// that other work loses some hundredths.
const (
	vacuumIdle  = time.Second
	vacuumPause = 2 * time.Millisecond
	vacuumBusy  = 100 * time.Millisecond
	vacuumCopy  = 32 // steps after which the log is copied beside other work: only a copy makes the file shorter
	vacuumStep  = "PRAGMA incremental_vacuum(256)"
	vacuumKeep  = 2048 // pages (8 MB)
)

const passiveCheckpoint = "PRAGMA wal_checkpoint(PASSIVE)"

// A checkpointer copies the log beside the writer. The fields pages, log and running are the writer's.
type checkpointer struct {
	pages   int // that the writer has added to the log since a copy last began
	log     int // likewise, since the writer itself has copied
	running bool

	start chan struct{}
	done  chan copied
	ended chan struct{}
}

// copied tells how many pages a copy has found in the log, and how many it left there. It leaves pages that some
// reader doesn't see yet, and pages that came too late. Both are below zero when another connection was copying.
type copied struct{ pages, left int64 }

func (c *conn) copyLog() (copied, error) {
	s, err := c.prepare(passiveCheckpoint, 0)
	if err != nil {
		return copied{-1, -1}, err
	}
	defer s.finalize()
	// Its columns are whether another copy was under way, pages in the log, and pages copied.
	if row, err := s.step(); !row || s.colInt(1) < 0 {
		return copied{-1, -1}, err
	}
	return copied{s.colInt(1), s.colInt(1) - s.colInt(2)}, nil
}

func newCheckpointer(p *place) (*checkpointer, error) {
	c, err := p.open(openCreate)
	if err != nil {
		return nil, err
	}
	if err := c.exec("PRAGMA synchronous = NORMAL"); err != nil {
		c.close()
		return nil, err
	}
	k := &checkpointer{
		start: make(chan struct{}, 1),
		done:  make(chan copied, 1),
		ended: make(chan struct{}),
	}
	go func() {
		defer close(k.ended)
		defer c.close()
		for range k.start {
			did, err := c.copyLog()
			p.saw(err) // any other failure is left to the next copy
			k.done <- did
		}
	}()
	return k, nil
}

// begin starts to copy.
func (k *checkpointer) begin() {
	k.pages, k.running = 0, true
	k.start <- struct{}{}
}

// close ends the goroutine and its connection. It is called once the writer's goroutine has ended.
func (k *checkpointer) close() {
	close(k.start)
	<-k.ended
}

// checkpoint copies the log when it has grown. It reports whether anything was written since the last call.
func (w *writer) checkpoint() (wrote bool) {
	k := w.ckpt
	n := w.c.pagesWritten()
	k.pages += n
	k.log += n
	w.wrote = w.wrote || n > 0
	switch {
	case w.s.place.check() != nil: // the log may be another file's by now
	case k.log >= ckptPages && w.c.logPages() >= ckptLimit:
		w.copyLog()
	case k.pages >= ckptPages && !k.running:
		k.begin()
	}
	return n > 0
}

// finishCheckpoint copies the pages that came while the other connection copied.
func (w *writer) finishCheckpoint(did copied) {
	w.readerWatch.see(did)
	if w.ckpt.pages > ckptFew {
		w.ckpt.begin()
		return
	}
	w.copyLog()
}

// copyLog copies all that is left of the log, so that SQLite overwrites it from its beginning.
func (w *writer) copyLog() {
	k := w.ckpt
	if k.running { // two can't copy at once
		<-k.done
		k.running = false
	}
	did, err := w.c.copyLog()
	w.s.place.saw(err)
	w.readerWatch.see(did)
	k.pages, k.log = 0, 0
	if did.pages >= ckptLimit && did.left < ckptFew {
		w.finishLog()
	}
}

// finishLog copies the last of a long log while it keeps other processes from writing, so that the next commit of any
// process overwrites the log from its beginning. Without this, several processes that write make the log grow for ever,
// because something always comes during a copy.
func (w *writer) finishLog() {
	if patient(func() error { return nil }, w.c.stmt("BEGIN IMMEDIATE").run) != nil {
		return // the next copy tries again
	}
	w.ckpt.begin()
	w.readerWatch.see(<-w.ckpt.done)
	w.ckpt.running = false
	w.c.stmt("ROLLBACK").run()
}

// tidyLater has tidy run in a while, because something was written.
func (w *writer) tidyLater() {
	w.wroteSinceTidy = true
	if !w.vacuumScheduled {
		w.vacuumScheduled = true
		w.vacuum.Reset(vacuumIdle)
	}
}

// tidy makes the log longer, once. After that it gives some free pages back: many while nothing else is written,
// fewer among other work. When no more are left it copies the log, which makes the file shorter.
func (w *writer) tidy() {
	again := func(d time.Duration) { w.vacuumScheduled = true; w.vacuum.Reset(d) }
	w.vacuumScheduled = false
	if w.lengthenAtRest() {
		again(vacuumPause)
		return
	}
	wrote := w.wroteSinceTidy
	w.wroteSinceTidy = false
	free, err := w.c.oneInt("PRAGMA freelist_count")
	if err == nil && free > vacuumKeep {
		err = w.relax(true) // no caller waits for an empty page
		if err == nil {
			err = w.s.place.saw(w.c.exec(vacuumStep))
		}
		if err == nil {
			w.checkpoint()
			w.steps++
		}
	}
	switch k := w.ckpt; {
	case err != nil && busy(err):
		again(vacuumIdle)
	case err == nil && wrote:
		most := 0
		if free > vacuumKeep {
			most = vacuumCopy
			again(vacuumBusy)
		} else {
			again(vacuumIdle)
		}
		if w.steps > most && !k.running {
			w.steps = 0
			k.begin()
		}
	case err != nil: // tidy runs again after the next write
	case free > vacuumKeep:
		again(vacuumPause)
	case k.pages > 0 && !k.running:
		k.begin()
	}
}
