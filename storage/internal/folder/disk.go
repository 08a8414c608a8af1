package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millrace-go/millrace/internal/beside"
	"github.com/millrace-go/millrace/storage/driver"
)

const (
	lockDir = ".lock"
	tempDir = ".temp"
)

// disk is where the folder is.
type disk struct {
	path string
	of   string // the file whose owner gets what root makes; may be empty
}

// root is the folder, opened. No name leads out of it.
type root struct {
	tree *os.Root
	disk *disk
}

// open opens the folder, or returns nil if nobody has made it.
func (d *disk) open() (*root, error) {
	r, err := os.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.fail(err)
	}
	return &root{r, d}, nil
}

// make is open, but makes a missing folder.
func (d *disk) make() (*root, error) {
	r, err := d.open()
	if r == nil && err == nil {
		r, err = d.makeRoot()
	}
	if err != nil {
		return nil, d.fail(err)
	}
	if err := errors.Join(r.makeDir(".", lockDir), r.makeDir(".", tempDir)); err != nil {
		_ = r.tree.Close()
		return nil, d.fail(err)
	}
	return r, nil
}

func (d *disk) makeRoot() (*root, error) {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(filepath.Dir(d.path))
	if err != nil {
		return nil, err
	}
	above := &root{parent, d}
	err = errors.Join(above.give(filepath.Base(d.path)), above.sync("."), parent.Close())
	if err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	return &root{r, d}, nil
}

// fail gives an error of the system its kind, and says what to do. Other errors stay as they are.
func (d *disk) fail(err error) error {
	hint := ""
	switch {
	case err == nil || errors.Is(err, driver.ErrUnavailable) || !ofSystem(err):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "the disk is full: make room; the store goes on by itself: "
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		hint = "the folder, and all in it, must be writable for this user: "
	}
	return fmt.Errorf("%w: %sfolder %s: %w", driver.ErrUnavailable, hint, driver.Quote(d.path), err)
}

// ofSystem reports an error of a call of the system, or of the folder's root.
func ofSystem(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return true
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

func (r *root) fail(err error) error { return r.disk.fail(err) }

// makeDir makes a folder for this user only, unless it is there. A new one stays after a power failure.
func (r *root) makeDir(parent, name string) error {
	switch err := r.tree.Mkdir(name, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(r.give(name), r.sync(parent))
}

// give gives what root makes to the owner of the file beside the folder.
func (r *root) give(name string) error {
	if r.disk.of == "" || os.Geteuid() != 0 {
		return nil
	}
	here, err := r.tree.Lstat(name)
	if err != nil {
		return err
	}
	if uid, gid, ok := beside.Owner(here, r.disk.of); ok {
		return r.tree.Lchown(name, uid, gid)
	}
	return nil
}

// create makes a file that isn't there, for this user only.
func (r *root) create(name string) (*os.File, error) {
	f, err := r.tree.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := r.give(name); err != nil {
		return nil, errors.Join(err, f.Close(), r.tree.Remove(name))
	}
	return f, nil
}

// sync makes the names in a folder durable.
func (r *root) sync(name string) error {
	f, err := r.tree.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// names returns the names in a folder, at most so many unless most is negative. A missing folder is empty.
func (r *root) names(dir string, most int) ([]string, error) {
	f, err := r.tree.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// remove is Remove, but a missing file is as good.
func (r *root) remove(name string) error {
	if err := r.tree.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
