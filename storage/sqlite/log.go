package sqlite

// A commit that makes the log longer takes the disk up to three times as long as a commit that overwrites: the file
// system has to keep the file's new length as well. So the writer writes zeros behind the log, a chunk for many
// commits:
//
//   - in a commit that comes near to the log's end
//   - once, in steps between other work, from the second after the first write on.
//
// SQLite doesn't take the zeros behind the last commit for its own: the frames of a log carry two numbers that are
// new with each log.
const (
	logHeader      = 32
	logFrameHeader = 24
	logNear        = 64 << 10  // a commit that ends so near to the log's end makes the log longer
	logChunk       = 1 << 20   // by as much as the log is long, but by no more than this
	logStep        = 256 << 10 // between other work by no more than this: that takes three milliseconds less, and a message may come
	logAhead       = 4 << 20   // until the log is so long
)

// A logEnd is what the writer knows of the log's end.
type logEnd struct {
	frame int64 // bytes
	pages int64 // up to its last commit, when the writer last looked
	size  int64 // of the file when the writer last looked, or more when it could not be made longer
	zeros []byte
}

// lengthen makes the log longer when the commit comes near to its end. It is called in a transaction, so nobody else
// writes to the log.
func (w *writer) lengthen() {
	e := &w.logEnd
	pages := w.c.logPages()
	grown := pages - e.pages // by other processes too: as much may come until the next look
	if grown < 0 {
		grown, e.size = 0, 0 // the log began again, and SQLite may have cut it
	}
	e.pages = pages
	near := logHeader + (pages+grown)*e.frame + logNear
	if pages == 0 || near <= e.size || !w.c.inTransaction() { // a program that sends one message writes nothing ahead
		return
	}
	if w.zeros(near, logChunk) == 0 && e.size < near {
		e.size = near + logChunk // the write failed: don't try with each commit
	}
}

// lengthenAtRest makes the log longer by a step. The syncer syncs it, beside the writer. It reports whether more may
// be left to do.
func (w *writer) lengthenAtRest() bool {
	if w.logExtended || w.c.exec("BEGIN IMMEDIATE") != nil {
		return false
	}
	w.logExtended = w.zeros(logAhead, logStep) == 0
	w.c.exec("ROLLBACK")
	if !w.logExtended {
		w.syncer.in <- nil
	}
	return !w.logExtended
}

// zeros lengthens a log that is shorter than should: by as much as it is long, or by most. It returns by how much. A
// failure, on a full disk perhaps, doesn't matter, or the next commit fails as well.
func (w *writer) zeros(should, most int64) (n int) {
	// Called seldom: a file system that is asked for a file's times records each later change of them.
	info, err := w.syncer.log.Stat()
	if err != nil {
		return 0
	}
	e := &w.logEnd
	e.size = info.Size()
	if e.size < should {
		if e.zeros == nil {
			e.zeros = make([]byte, logChunk) // kept: to allocate it costs as much as to write it
		}
		n, _ = w.syncer.log.WriteAt(e.zeros[:min(max(e.size, logNear), most)], e.size)
		e.size += int64(n)
	}
	return n
}
