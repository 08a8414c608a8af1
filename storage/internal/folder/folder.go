package folder

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage/driver"
)

// Folder implements driver.Files. The folder on the disk is made by the first PutPart.
type Folder struct {
	disk    disk
	locks   locks
	intake  intake
	closed  atomic.Bool
	byBytes bool // copies bytes also where there are hard links
}

// New returns the files in the folder of a path. All that root makes there is given to the owner of the file of, since
// programs run as that user; of may be empty.
func New(path, of string) *Folder {
	d := &Folder{disk: disk{path: path, of: of}, locks: newLocks()}
	d.intake.buffers.New = func() any { return new([bufferSize]byte) }
	return d
}

// Close lets later calls fail. Calls under way finish or fail.
func (d *Folder) Close() { d.closed.Store(true) }

// Takes implements driver.Files: parts come by PutPart.
func (d *Folder) Takes() error { return nil }

// Key implements driver.Files: a folder has no URLs.
func (d *Folder) Key(ctx context.Context, _, _ string, _ driver.FileKey) (string, error) {
	return "", d.without(ctx)
}

// Origins implements driver.Files: a folder has no URLs.
func (d *Folder) Origins(ctx context.Context, _ []string) ([]string, error) {
	return nil, d.without(ctx)
}

func (d *Folder) without(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: a folder has no URLs", driver.ErrUnsupported)
}

// begin returns why a call can't begin or go on.
func (d *Folder) begin(ctx context.Context) error {
	if d.closed.Load() {
		return fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// open opens what lies under a key, for reading. The folder is nil if nobody has made it. The caller closes it.
func (d *Folder) open(ctx context.Context, container, key string) (*shelf, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	root, err := d.disk.open()
	if root == nil {
		return nil, err
	}
	return &shelf{root, placeOf(container, key)}, nil
}

// locked calls f while it holds the lock of a key. It doesn't call f where nobody has made the folder.
func (d *Folder) locked(ctx context.Context, container, key string, f func(s *shelf) error) error {
	s, err := d.open(ctx, container, key)
	if s == nil {
		return err
	}
	defer s.close()
	unlock, err := d.locks.lock(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	return f(s)
}

// Stat implements driver.Files.
func (d *Folder) Stat(ctx context.Context, container, key string) (driver.FileInfo, error) {
	s, m, err := d.file(ctx, container, key)
	if err != nil {
		return driver.FileInfo{}, err
	}
	s.close()
	return m.info(), nil
}

// file opens what lies under a key and reads its manifest. The caller closes the shelf.
func (d *Folder) file(ctx context.Context, container, key string) (*shelf, *manifest, error) {
	s, err := d.open(ctx, container, key)
	if err != nil {
		return nil, nil, err
	}
	if s == nil {
		return nil, nil, driver.ErrNotFound
	}
	m, err := s.read()
	if err == nil && m == nil {
		err = driver.ErrNotFound
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, m, nil
}
