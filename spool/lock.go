package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/internal/flock"
	"github.com/millrace-go/millrace/storage"
)

// ErrInUse says that another program has the file open as its spool.
var ErrInUse = errors.New("the spool is in use by another program: give each its own file")

// realPath returns the path of a file, which need not be there, without links. So the file has one lock, whatever names
// lead to it.
func realPath(path string) (string, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real, nil
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		return filepath.Join(folder, filepath.Base(file)), nil
	}
	return file, nil
}

// lockFile locks the file of a spool by the file beside it. The lock goes with the process, whatever ends it. A lock
// file that is removed meanwhile protects no more. Then two programs may forward the same messages, which have the same
// IDs; nothing is lost.
func lockFile(path string) (*os.File, error) {
	if !flock.Works {
		return nil, fmt.Errorf("%w: this system has no locks for files, so nothing would keep two programs from sharing a spool", storage.ErrUnsupported)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	f, err := os.OpenFile(path+"-lock", os.O_RDWR|os.O_CREATE, 0o600)
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
		_, err = f.WriteAt([]byte(call.ProcessName()+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", storage.ErrUnavailable, err), f.Close())
	}
	return f, nil
}
