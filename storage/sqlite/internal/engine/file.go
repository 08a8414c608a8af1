package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// A file is the database file that is open. It knows whether what is written will be there later: whether the paths
// still lead to the file, and whether the disk keeps what it is given.
type file struct {
	path  string
	paths watchedPaths
	disk  disk
}

func newFile(path string) (*file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if err := checkNames(path, info); err != nil {
		return nil, err
	}
	f := &file{path: path}
	f.paths.watch(path, info)
	return f, nil
}

// connect opens another connection to the file.
func (f *file) connect(mode Mode) (*Conn, error) {
	c, err := Connect(f.path, mode)
	if err == nil {
		c.disk = &f.disk
	}
	if lost := f.checkNow(); lost != nil { // what was opened, if anything, is not the file
		if err == nil {
			c.Close()
		}
		return nil, lost
	}
	return c, err
}

// openLog opens the log for writing, and has checks include it and the shared memory. Both exist once a connection has
// read, and stay the same as long as a connection is open. To close the log drops no lock: SQLite has none on it.
func (f *file) openLog(path string) (*os.File, error) {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	info, err := log.Stat()
	if err == nil {
		f.paths.watch(path, info)
		path = strings.TrimSuffix(path, "-wal") + "-shm"
		info, err = os.Stat(path)
	}
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	f.paths.watch(path, info)
	if err := f.checkNow(); err != nil { // log and shared memory are another file's
		log.Close()
		return nil, err
	}
	return log, nil
}

// checkLog returns an error when the log has lost its beginning. SQLite doesn't look: it writes behind what it thinks
// is there, and the next start would find none of that. The writer calls checkLog after a commit.
func (f *file) checkLog(log *os.File, c *Conn) error {
	// Another program may copy the log and empty it, and others write to it, between a look at the log and one at its
	// index.
	for range 3 {
		var begins [4]byte
		if _, err := log.ReadAt(begins[:], 0); err == nil && binary.BigEndian.Uint32(begins[:])&^1 == logMagic {
			return nil
		}
		if pages, err := c.pagesInLog(); err != nil || pages <= 0 {
			return err
		}
	}
	return f.disk.saw(&Error{Code: sqlite3.SQLITE_CORRUPT, Message: "the log (-wal) was cut or overwritten"})
}

// check returns an error when the file was lost, a sync has failed, or a statement has found damage. It looks at the
// paths unless the last look is less than lookEvery ago.
func (f *file) check() error {
	if err := f.disk.failure(); err != nil {
		return err
	}
	return f.paths.check(lookEvery)
}

// checkNow is check with a look now.
func (f *file) checkNow() error {
	if err := f.disk.failure(); err != nil {
		return err
	}
	return f.paths.check(0)
}

// lookEvery is how long the outcome of a look at the paths is good for reads, and before a commit. After a commit
// another look comes before callers are answered.
const lookEvery = time.Second

var errLost = fmt.Errorf("%w: the file, or the -wal or -shm beside it, was replaced or removed while this program had it open: stop every program that uses it, "+
	"see that no -wal and -shm of an old file lie beside a new one, and start again", driver.ErrUnavailable)

// watchedPaths sees whether paths still lead to the files that they led to. SQLite doesn't look: its connections go on
// with files that have lost their names, and what they write is lost when the program ends.
type watchedPaths struct {
	mu     sync.Mutex
	files  []watchedPath
	looked time.Time
	lost   bool // for good: the log may have changed meanwhile
}

type watchedPath struct {
	path string
	info os.FileInfo
}

// watch has looks include another path from now on.
func (w *watchedPaths) watch(path string, info os.FileInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, watchedPath{path, info})
}

// check returns an error when a look has found another file or none. It looks unless the last look is less than fresh
// ago.
func (w *watchedPaths) check(fresh time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.looked) >= fresh {
		w.looked = now
		for _, f := range w.files {
			w.lost = w.lost || leadsElsewhere(f.path, f.info)
		}
	}
	if w.lost {
		return errLost
	}
	return nil
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

// A disk remembers that a sync has failed, or that a statement has found damage. The disk may then have dropped what it
// was given, and may report success the next time. Later acknowledgements would rest on data that isn't there, and
// pages copied from the log might be others.
type disk struct {
	mu  sync.Mutex
	err error
}

// saw takes each error of the library. It remembers a sync that failed and damage that was found, and returns the error
// of every call from then on. It passes on any other error. A nil disk remembers nothing.
func (d *disk) saw(err error) error {
	switch e := asError(err); {
	case d == nil, e == nil:
		return err
	case e.failedSync():
		return d.unsynced(err)
	case e.foundDamage():
		return d.failed(damaged, err)
	}
	return err
}

// unsynced is failed for a sync.
func (d *disk) unsynced(err error) error {
	return d.failed("the disk did not keep what was written: see what ails it, and start this program again", err)
}

// failed remembers the first failure, and returns the error of every call from then on.
func (d *disk) failed(what string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, what, err)
	}
	return d.err
}

// failure returns the error of every call after such a failure, or nil.
func (d *disk) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
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
