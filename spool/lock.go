package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/internal/beside"
	"github.com/millrace-go/millrace/internal/flock"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ErrInUse says that another program has the file open as its spool.
var ErrInUse = errors.New("the spool is in use by another program: give each its own file")

// A lock keeps other programs from the file of a spool, by a lock on the file PATH-lock. The operating system ends the
// lock with the process.
type lock struct {
	path string // of the spool's file

	mu   sync.Mutex
	file *os.File
	info os.FileInfo
	lost error // another program has the file now
}

// lockFile locks the file of a spool.
func lockFile(path string) (*lock, error) {
	if !flock.Works {
		return nil, fmt.Errorf("%w: this system has no locks for files, so nothing would keep two programs from sharing a spool", storage.ErrUnsupported)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	l := &lock{path: path}
	if err := l.take(); err != nil {
		return nil, err
	}
	return l, nil
}

// hold returns an error if another program may have the file. A lock file that was removed is made again; where the
// spool's file is gone, too, the driver tells. The check costs some microseconds.
func (l *lock) hold() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !isGone(l.path+"-lock", l.info) || !exists(l.path) {
		return l.lost
	}
	old := l.file
	err := l.take()
	switch {
	case err == nil:
		_ = old.Close() // nobody finds it by a name
	case errors.Is(err, ErrInUse):
		l.lost = fmt.Errorf("%w: the lock file was removed, and another program has opened the spool: stop both, and give each its own file: %w", storage.ErrUnavailable, err)
		return l.lost
	}
	return err
}

// close gives the file free.
func (l *lock) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// take opens and locks the lock file. It begins again if the file was removed before it was locked.
func (l *lock) take() error {
	for {
		f, err := lockAt(l.path)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %w", storage.ErrUnavailable, err), f.Close())
		}
		if !isGone(l.path+"-lock", info) {
			l.file, l.info = f, info
			return nil
		}
		_ = f.Close() // nobody finds it by a name
	}
}

func lockAt(path string) (*os.File, error) {
	f, err := beside.Open(path+"-lock", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	if !flock.Lock(f) {
		holder := make([]byte, 100)
		n, _ := f.Read(holder) // it only names the holder
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w (%s)", storage.Quote(path), ErrInUse, storage.Quote(strings.TrimSpace(string(holder[:n]))))
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(storecall.ProcessName()+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", storage.ErrUnavailable, err), f.Close())
	}
	return f, nil
}

// isGone reports that a path leads to another file than before, or to no file. A path that can't be looked up for
// another reason counts as unchanged.
func isGone(path string, file os.FileInfo) bool {
	there, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(there, file)
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
