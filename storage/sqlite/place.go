package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// lookEvery is how long the outcome of a look at the paths is good for reads, and before a commit. After a commit
// another look comes before callers are answered.
const lookEvery = time.Second

var errLost = fmt.Errorf("%w: the file, or the -wal or -shm beside it, was replaced or removed while this program had it open: stop every program that uses it, "+
	"see that no -wal and -shm of an old file lie beside a new one, and start again", driver.ErrUnavailable)

// A place knows whether what is written will be there later.
//
// It sees whether the paths still lead to the file that was opened, and to the log and the shared memory beside it.
// SQLite doesn't look: its connections go on with files that have lost their names, and what they write is lost when
// the program ends.
//
// It also remembers that the disk failed to sync. Such a disk may have dropped what it was given, and may report
// success the next time. Later acknowledgements would then rest on data that isn't there, and pages copied from the
// log might be others.
type place struct {
	path string

	mu     sync.Mutex
	files  []watchedFile
	looked time.Time
	lost   error // for good: the log may have changed meanwhile
}

// A watchedFile is one that a path must lead to.
type watchedFile struct {
	path string
	info os.FileInfo
}

func newPlace(path string) (*place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if err := checkNames(path, info); err != nil {
		return nil, err
	}
	return &place{path: path, files: []watchedFile{{path, info}}, looked: time.Now()}, nil
}

// checkNames refuses a file that can be reached without its log, which lies in the folder where the file was opened.
// Reached so, SQLite begins with an empty log and reports nothing. The last acknowledged writes would be missing, and
// the old log would spoil later ones.
func checkNames(path string, info os.FileInfo) error {
	if isMounted(path) {
		return fmt.Errorf("%w: the file is mounted by itself, so its log (-wal), which has what was acknowledged last, would lie elsewhere and be lost with the container: "+
			"mount the folder that holds the file (docker run -v FOLDER:..., not -v FILE:...; in Kubernetes no subPath)", driver.ErrInvalid)
	}
	if n := countLinks(info); n > 1 {
		return fmt.Errorf("%w: the file has %d names (hard links), and its log (-wal), which has what was acknowledged last, lies beside one of them only: "+
			"stop every program that uses it, keep the name that has a -wal beside it, remove the others (find FOLDER -samefile FILE lists them), and start again", driver.ErrInvalid, n)
	}
	return nil
}

// open opens another connection to the file.
func (p *place) open(flags int32) (*conn, error) {
	c, err := openConn(p.path, flags)
	if lost := p.checkNow(); lost != nil { // what was opened, if anything, is not the file
		if err == nil {
			c.close()
		}
		return nil, lost
	}
	return c, err
}

// check returns an error when a look has found another file or none, or when a sync has failed. It looks unless the
// last look is less than lookEvery ago.
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
	for _, f := range p.files {
		if p.lost == nil && leadsElsewhere(f.path, f.info) {
			p.lost = errLost
		}
	}
	return p.lost
}

// otherFile is leadsElsewhere for any system.
func otherFile(path string, file os.FileInfo) bool {
	info, err := os.Stat(path)
	return isAbsence(err) || err == nil && !os.SameFile(info, file)
}

// isAbsence reports that an error says that a path leads to no file. Any other error says nothing about that.
func isAbsence(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// watch has looks include another file from now on.
func (p *place) watch(path string, info os.FileInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = append(p.files, watchedFile{path, info})
}

// saw passes on the error of a call that may have synced, and remembers a sync that failed.
func (p *place) saw(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Code == sqlite3.SQLITE_IOERR_FSYNC || e.Code == sqlite3.SQLITE_IOERR_DIR_FSYNC) {
		return p.unsynced(err)
	}
	return err
}

// unsynced remembers a sync that failed, and returns the error of every call from then on.
func (p *place) unsynced(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = fmt.Errorf("%w: the disk did not keep what was written: see what ails it, and start this program again: %w", driver.ErrUnavailable, err)
	}
	return p.lost
}
