package sqlite

// A commit that makes the log longer takes the disk up to three times as long as one that overwrites: the file system has to keep the
// file's new length as well. So zeros are written ahead of what comes, a chunk for many commits. Whatever follows the last commit in
// the log is nothing to SQLite, which knows its own by numbers that each log begins anew with.
const (
	logHeader      = 32
	logFrameHeader = 24
	logNear        = 64 << 10 // so near to its end the log is made longer
	logChunk       = 1 << 20  // by as much as it is long, and by this at most: the sync of so many zeros takes a millisecond or two
)

// A logEnd is what the writer knows of the log's end.
type logEnd struct {
	frame int64 // bytes
	pages int64 // to its last commit, when the writer last looked
	size  int64 // at least as long the file is, unless it was cut since
}

// lengthen writes zeros behind the log where what is committed comes near to its end. It is called in a transaction: nobody else
// writes to the log. What fails here, on a full disk perhaps, the next commit finds too, or it doesn't matter.
func (w *writer) lengthen() {
	e := &w.logEnd
	pages := w.c.logPages()
	if pages < e.pages {
		e.size = 0 // it began anew, and SQLite may have cut it
	}
	e.pages = pages
	near := logHeader + pages*e.frame + logNear
	if pages == 0 || near <= e.size { // a program that sends one message writes nothing ahead
		return
	}
	// Seldom, because a file system that is asked for a file's times notes each later change of them.
	info, err := w.syncer.log.Stat()
	if err != nil {
		return
	}
	e.size = info.Size()
	if near > e.size {
		n, _ := w.syncer.log.WriteAt(make([]byte, min(max(e.size, logNear), logChunk)), e.size)
		e.size += int64(n)
	}
}
