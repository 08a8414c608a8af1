package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// lookEvery is how long what a look at the file's path has found is believed.
const lookEvery = time.Second

var errLost = fmt.Errorf("%w: the file, or the -wal beside it, was replaced or removed while this program had it open: stop every program that uses it, "+
	"see that no -wal and -shm of an old file lie beside a new one, and start again", driver.ErrUnavailable)

// A place knows whether what is written will be there later.
//
// It sees whether the paths still lead to the file that was opened, and to its log. SQLite doesn't look: its connections go on with
// files that have lost their names, and whatever they write goes with them when the program ends.
//
// And it hears of a disk that failed to sync. Such a disk may have dropped what it was given, and may report success the next time: what is
// acknowledged after that would rest on what isn't there, and what is copied from the log might be something else.
type place struct {
	path string
	file os.FileInfo

	mu      sync.Mutex
	logPath string // none until it is known
	logFile os.FileInfo
	looked  time.Time
	lost    error // for good: nobody knows what became of the log meanwhile
}

func newPlace(path string) (*place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return &place{path: path, file: info, looked: time.Now()}, nil
}

// open opens another connection to the file.
func (p *place) open(flags int32) (*conn, error) {
	c, err := openConn(p.path, flags)
	if lost := p.checkNow(); lost != nil { // and what was opened, if anything, is not the file
		if err == nil {
			c.close()
		}
		return nil, lost
	}
	return c, err
}

// check returns an error when a look, now or lookEvery ago at most, has found another file or none, or a sync has failed.
func (p *place) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) < lookEvery {
		return p.lost
	}
	return p.look()
}

// checkNow is check with a look now.
func (p *place) checkNow() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look()
}

func (p *place) look() error {
	p.looked = time.Now()
	if p.lost == nil && (gone(p.path, p.file) || p.logPath != "" && gone(p.logPath, p.logFile)) {
		p.lost = errLost
	}
	return p.lost
}

// gone tells that a path leads to another file or none.
func gone(path string, file os.FileInfo) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, file) // any other error says nothing
}

// watchLog looks for the log, too, from now on. It stays the same file for as long as a connection is open.
func (p *place) watchLog(path string, file os.FileInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logPath, p.logFile = path, file
}

// saw passes on how something went that may have synced, and remembers a sync that failed.
func (p *place) saw(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Code == sqlite3.SQLITE_IOERR_FSYNC || e.Code == sqlite3.SQLITE_IOERR_DIR_FSYNC) {
		return p.unsynced(err)
	}
	return err
}

// unsynced remembers a sync that failed, and returns what every call says from then on.
func (p *place) unsynced(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = fmt.Errorf("%w: the disk did not keep what was written: see what ails it, and start this program again: %w", driver.ErrUnavailable, err)
	}
	return p.lost
}
