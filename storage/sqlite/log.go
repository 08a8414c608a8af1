package sqlite

// A commit that makes the log longer takes the disk up to three times as long as one that overwrites: the file system has to keep the
// file's new length as well. So zeros are written ahead of what comes, a chunk for many commits: in one of them where that is near,
// and while the store is at rest until there is enough for one with little to do. Whatever follows the last commit in the log is
// nothing to SQLite, which knows its own by numbers that each log begins anew with.
const (
	logHeader      = 32
	logFrameHeader = 24
	logNear        = 64 << 10  // so near to its end the log is made longer
	logChunk       = 1 << 20   // by as much as it is long, and by this at most: seldom, because the disk notes each length
	logStep        = 256 << 10 // at rest by this at most, because it takes three milliseconds less, and a message may come
	logAhead       = 4 << 20   // so long it is made at rest
)

// A logEnd is what the writer knows of the log's end.
type logEnd struct {
	frame int64 // bytes
	pages int64 // to its last commit, when the writer last looked
	size  int64 // at least as long the file is, unless it was cut since
	zeros []byte
}

// lengthen makes the log longer where what is committed comes near to its end. It is called in a transaction: nobody else
// writes to the log.
func (w *writer) lengthen() {
	e := &w.logEnd
	pages := w.c.logPages()
	grown := pages - e.pages // others' too: as much may come until the next look
	if grown < 0 {
		grown, e.size = 0, 0 // it began anew, and SQLite may have cut it
	}
	e.pages = pages
	near := logHeader + (pages+grown)*e.frame + logNear
	if pages == 0 || near <= e.size || !w.c.inTransaction() { // a program that sends one message writes nothing ahead
		return
	}
	w.zeros(near, logChunk)
	e.size = max(e.size, near) // also if that failed: not again with the next commit
}

// lengthenAtRest makes the log longer by a chunk, with its sync beside the writer. It reports whether there may be more to do.
func (w *writer) lengthenAtRest() bool {
	if w.stretched || w.c.exec("BEGIN IMMEDIATE") != nil {
		return false
	}
	w.stretched = w.zeros(logAhead, logStep) == 0
	w.c.exec("ROLLBACK")
	if !w.stretched {
		w.syncer.in <- nil
	}
	return !w.stretched
}

// zeros writes as much behind the log as it is long, or most, if it is shorter than it should be, and returns how much. What fails,
// on a full disk perhaps, the next commit finds too, or it doesn't matter.
func (w *writer) zeros(should, most int64) (n int) {
	// Seldom, because a file system that is asked for a file's times notes each later change of them.
	info, err := w.syncer.log.Stat()
	if err != nil {
		return 0
	}
	e := &w.logEnd
	e.size = info.Size()
	if e.size < should {
		if e.zeros == nil {
			e.zeros = make([]byte, logChunk) // kept: the memory for it costs as much as to write it
		}
		n, _ = w.syncer.log.WriteAt(e.zeros[:min(max(e.size, logNear), most)], e.size)
		e.size += int64(n)
	}
	return n
}
