package sqlite

import "time"

// Copying the log back into the file (a checkpoint) takes some milliseconds, and SQLite by itself does it
// inside a commit: that is what the slowest writes wait for. So a second connection does it beside the
// writer. It can't finish while the writer goes on writing, and only a log that is copied whole begins anew
// rather than grow; so the writer itself copies the few pages that came meanwhile.
const (
	ckptPages = 4000  // begin beside the writer (16 MB)
	ckptFew   = 2000  // so many the writer copies itself
	ckptLimit = 16384 // the log has grown enough (64 MB) by what is copied and written meanwhile: the writer copies all, now
)

// Free pages are used again, and what is above a reserve is given back to the file system, in steps short enough for a
// caller to wait for: one after the other while there is nothing else to do, else so few that others lose some hundredths.
const (
	vacuumIdle  = time.Second
	vacuumPause = 2 * time.Millisecond
	vacuumBusy  = 100 * time.Millisecond
	vacuumCopy  = 32 // steps after which the log is copied beside other work: the file is shorter only then
	vacuumStep  = "PRAGMA incremental_vacuum(256)"
	vacuumKeep  = 2048 // pages (8 MB)
)

const passiveCheckpoint = "PRAGMA wal_checkpoint(PASSIVE)"

// A checkpointer copies the log beside the writer. The fields pages, log and running are the writer's.
type checkpointer struct {
	pages   int // that the writer has added to the log since the copying last began
	log     int // and since all was copied
	running bool

	start chan struct{}
	done  chan copied
	ended chan struct{}
}

// copied is what a copy has found in the log, and left there: pages that some reader doesn't see yet, or that came too late. Both are
// below zero where another connection was copying.
type copied struct{ pages, left int64 }

func (c *conn) copyLog() (copied, error) {
	s, err := c.prepare(passiveCheckpoint, 0)
	if err != nil {
		return copied{-1, -1}, err
	}
	defer s.finalize()
	row, err := firstRow(s) // whether it was in the way of another, pages, pages that are copied
	if err != nil || row[1] < 0 {
		return copied{-1, -1}, err
	}
	return copied{row[1], row[1] - row[2]}, nil
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
			p.saw(err) // what it can't do now it does next time
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
	case k.log >= ckptLimit:
		w.copyLog()
	case k.pages >= ckptPages && !k.running:
		k.begin()
	}
	return n > 0
}

// finishCheckpoint copies what came while the other connection copied.
func (w *writer) finishCheckpoint(did copied) {
	w.readerWatch.see(did)
	if w.ckpt.pages > ckptFew {
		w.ckpt.begin()
		return
	}
	w.copyLog()
}

// copyLog copies all that is left of the log, so that it begins anew.
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
}

// tidyLater lets tidy run after a while in which something was written.
func (w *writer) tidyLater() {
	w.lately = true
	if !w.waits {
		w.waits = true
		w.vacuum.Reset(vacuumIdle)
	}
}

// tidy makes the log longer, once, and after that gives some free pages back: many while nothing else is written, fewer among other
// work. When there are no more it copies the log, which makes the file shorter.
func (w *writer) tidy() {
	again := func(d time.Duration) { w.waits = true; w.vacuum.Reset(d) }
	w.waits = false
	if w.lengthenAtRest() {
		again(vacuumPause)
		return
	}
	wrote := w.lately
	w.lately = false
	free, err := w.c.oneInt("PRAGMA freelist_count")
	if err == nil && free > vacuumKeep {
		err = w.relax(true) // an empty page is nobody's
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
	case err != nil: // the next write sees to it
	case free > vacuumKeep:
		again(vacuumPause)
	case k.pages > 0 && !k.running:
		k.begin()
	}
}
