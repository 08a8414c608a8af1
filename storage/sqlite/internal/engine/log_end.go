package engine

import "os"

const (
	logMagic       = 0x377f0682 // begins a log; its last bit tells the order of bytes in checksums
	logHeader      = 32
	logFrameHeader = 24
	logNear        = 64 << 10  // a commit that ends so near to the log's end makes the log longer
	logChunk       = 1 << 20   // by as much as the log is long, but by no more than this
	logStep        = 256 << 10 // at rest by no more than this: that takes three milliseconds less, and an op may come
	logAhead       = 4 << 20   // until the log is so long
)

// A logEnd keeps zeros behind the log. A commit that makes the log longer takes the disk up to three times as long as
// a commit that overwrites: the file system has to keep the file's new length as well. So a logEnd makes the log
// longer by a chunk for many commits:
//
//   - before a commit that comes near to the log's end
//   - at rest, in steps, once in its life.
//
// SQLite doesn't take the zeros behind the last commit for its own: the frames of a log carry two numbers that are
// new with each log.
type logEnd struct {
	c     *Conn // the writer's
	log   *os.File
	frame int64  // bytes of a page in the log
	sync  func() // has the log synced beside the writer

	pages int64 // up to the last commit, when it last looked
	size  int64 // of the file when it last looked, or more when it could not be made longer
	zeros []byte
	ended bool // atRest has no more to do
}

// beforeCommit makes the log longer when the commit comes near to its end. It is called in a transaction, so nobody
// else writes to the log.
func (e *logEnd) beforeCommit() {
	pages := e.c.logPages()
	grown := pages - e.pages // by other processes too: as much may come until the next look
	if grown < 0 {
		grown, e.size = 0, 0 // the log began again, and SQLite may have cut it
	}
	e.pages = pages
	near := logHeader + (pages+grown)*e.frame + logNear
	if pages == 0 || near <= e.size || !e.c.InTransaction() { // a program that sends one message writes nothing ahead
		return
	}
	if e.lengthen(near, logChunk) == 0 && e.size < near {
		e.size = near + logChunk // the write failed: don't try with each commit
	}
}

// atRest makes the log longer by a step, and has it synced so that the next commit need not. It reports whether more
// may be left to do.
func (e *logEnd) atRest() (more bool) {
	if e.ended || e.c.Exec("BEGIN IMMEDIATE") != nil {
		return false
	}
	e.ended = e.lengthen(logAhead, logStep) == 0
	e.c.Exec("ROLLBACK")
	if !e.ended {
		e.sync()
	}
	return !e.ended
}

// lengthen writes zeros behind a log that is shorter than should: as many bytes as it is long, or most. It returns how
// many. A failure, on a full disk perhaps, doesn't matter, or the next commit fails as well.
func (e *logEnd) lengthen(should, most int64) (n int) {
	// Called seldom: a file system that is asked for a file's times records each later change of them.
	info, err := e.log.Stat()
	if err != nil {
		return 0
	}
	e.size = info.Size()
	if e.size < should {
		if e.zeros == nil {
			e.zeros = make([]byte, logChunk) // kept: to allocate it costs as much as to write it
		}
		n, _ = e.log.WriteAt(e.zeros[:min(max(e.size, logNear), most)], e.size)
		e.size += int64(n)
	}
	return n
}
