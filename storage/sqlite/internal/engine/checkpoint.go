package engine

// Copying the log back into the file (a checkpoint) takes some milliseconds. SQLite by itself does it inside a
// commit, so the slowest writes would wait for it. Therefore a second connection copies, beside the writer. It can't
// finish while the writer goes on writing, and only a log that is copied whole is overwritten from its beginning
// rather than made longer. So the writer itself copies the few pages that came meanwhile.
const (
	ckptPages = 4000  // begin beside the writer (16 MB)
	ckptFew   = 2000  // the writer copies so many itself
	ckptLimit = 16384 // the log is longer than 64 MB although it is being copied: the writer copies all, at once
)

const passiveCheckpoint = "PRAGMA wal_checkpoint(PASSIVE)"

// A checkpointer copies the log, beside the writer and on the writer's connection. All but its goroutine is the
// writer's.
type checkpointer struct {
	file  *file
	c     *Conn // the writer's
	watch readerWatch

	pages   int  // that the writer has added to the log since a copy last began
	log     int  // likewise, since the writer itself has copied
	wrote   bool // the writer has written something
	running bool

	start chan struct{}
	done  chan copied
	ended chan struct{}
}

// copied tells how many pages a copy has found in the log, and how many it left there. It leaves pages that some
// reader doesn't see yet, and pages that came too late. Both are below zero when another connection was copying.
type copied struct{ pages, left int64 }

// copyLog copies. A failure that isn't fatal for the disk is left to the next copy.
func copyLog(c *Conn) copied {
	s, err := c.prepare(passiveCheckpoint, 0)
	if err != nil {
		return copied{-1, -1}
	}
	defer s.finalize()
	// Its columns are whether another copy was under way, pages in the log, and pages copied.
	if row, _ := s.Step(); !row || s.ColInt(1) < 0 {
		return copied{-1, -1}
	}
	return copied{s.ColInt(1), s.ColInt(1) - s.ColInt(2)}
}

// pagesInLog tells how many pages the log has by its index, those of other processes included.
func (c *Conn) pagesInLog() (int64, error) {
	s, err := c.prepare("PRAGMA wal_checkpoint(NOOP)", 0)
	if err != nil {
		return 0, err
	}
	defer s.finalize()
	row, err := s.Step()
	if !row {
		return 0, err
	}
	return s.ColInt(1), nil
}

func newCheckpointer(f *file, writer *Conn, watch readerWatch) (*checkpointer, error) {
	c, err := f.connect(ReadWrite)
	if err != nil {
		return nil, err
	}
	if err := c.Exec("PRAGMA synchronous = NORMAL"); err != nil {
		c.Close()
		return nil, err
	}
	k := &checkpointer{
		file:  f,
		c:     writer,
		watch: watch,
		start: make(chan struct{}, 1),
		done:  make(chan copied, 1),
		ended: make(chan struct{}),
	}
	go func() {
		defer close(k.ended)
		defer c.Close()
		for range k.start {
			k.done <- copyLog(c)
		}
	}()
	return k, nil
}

// begin starts to copy beside the writer.
func (k *checkpointer) begin() {
	k.pages, k.running = 0, true
	k.start <- struct{}{}
}

// close ends the goroutine and its connection. It is called once the writer's goroutine has ended.
func (k *checkpointer) close() {
	close(k.start)
	<-k.ended
}

// noteWritten copies the log when the writer has made it long. It reports whether anything was written since the last
// call.
func (k *checkpointer) noteWritten() (wrote bool) {
	n := k.c.pagesWritten()
	k.pages += n
	k.log += n
	k.wrote = k.wrote || n > 0
	switch {
	case k.file.check() != nil: // the log may be another file's by now
	case k.log >= ckptPages && k.c.logPages() >= ckptLimit:
		k.copyAll()
	case k.pages >= ckptPages && !k.running:
		k.begin()
	}
	return n > 0
}

// finish copies the pages that came while the other connection copied.
func (k *checkpointer) finish(did copied) {
	k.running = false
	if k.file.check() != nil { // the log may be another file's by now
		return
	}
	k.watch.see(did)
	if k.pages > ckptFew {
		k.begin()
		return
	}
	k.copyAll()
}

// copyAll copies all that is left of the log, so that SQLite overwrites it from its beginning.
func (k *checkpointer) copyAll() {
	if k.running { // two can't copy at once
		<-k.done
		k.running = false
	}
	did := copyLog(k.c)
	k.watch.see(did)
	k.pages, k.log = 0, 0
	if did.pages >= ckptLimit && did.left < ckptFew {
		k.copyLast()
	}
}

// copyLast copies the last of a long log while it keeps other processes from writing, so that the next commit of any
// process overwrites the log from its beginning. Without this, several processes that write make the log grow for ever,
// because something always comes during a copy.
func (k *checkpointer) copyLast() {
	if retry(func() error { return nil }, k.c.Stmt("BEGIN IMMEDIATE").Run) != nil {
		return // the next copy tries again
	}
	k.begin()
	k.watch.see(<-k.done)
	k.running = false
	k.c.Stmt("ROLLBACK").Run()
}
