package sqlite

// A commit that makes the log longer takes the disk up to three times as long as one that overwrites: the file system has to keep the
// file's new length as well. So zeros are written behind the log, a chunk for many commits: by a commit that comes near to the end,
// and once, in steps between other work, from the second after the first write on. SQLite takes nothing behind the last commit for its
// own: the frames of a log carry two numbers that are new with each log.
const (
	logHeader      = 32
	logFrameHeader = 24
	logNear        = 64 << 10  // a commit that ends so near to the log's end makes it longer
	logChunk       = 1 << 20   // by as much as it is long, but by no more than this
	logStep        = 256 << 10 // between other work by no more than this: a message may come, and it takes three milliseconds less
	logAhead       = 4 << 20   // until it is so long
)

// A logEnd is what the writer knows of the log's end.
type logEnd struct {
	frame int64 // bytes
	pages int64 // to its last commit, when the writer last looked
	size  int64 // of the file when the writer last looked, or more where it could not be made longer
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
	if w.zeros(near, logChunk) == 0 && e.size < near {
		e.size = near + logChunk // it failed: not again with each commit
	}
}

// lengthenAtRest makes the log longer by a step, with its sync beside the writer. It reports whether there may be more to do.
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
