package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/millrace-go/millrace/storage/driver"
)

// Open implements driver.Files.
func (d *Folder) Open(ctx context.Context, container, key string, etag driver.ETag, offset, size int64) (io.ReadCloser, error) {
	s, m, err := d.file(ctx, container, key)
	if err != nil {
		return nil, err
	}
	r := &reader{begin: func() error { return d.begin(ctx) }, shelf: s, m: m, skip: offset, left: size}
	switch {
	case m.ETag != etag:
		err = driver.ErrPrecondition
	case offset < 0 || size < 0 || offset > m.Size || size > m.Size-offset:
		err = fmt.Errorf("%w: %d bytes from byte %d on; the file has %d", driver.ErrInvalid, size, offset, m.Size)
	case size > 0:
		err = r.step()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return r, nil
}

// reader reads some bytes of a file, one part after another.
type reader struct {
	begin func() error // why it can't go on
	shelf *shelf
	m     *manifest
	next  int      // the part to be opened next
	f     *os.File // the part that is read, nil for none
	skip  int64    // bytes before the first
	here  int64    // bytes left of the part
	left  int64    // bytes left of all
	err   error
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if r.err == nil && r.left > 0 {
		r.err = r.begin()
	}
	if r.err == nil && r.left > 0 && r.here == 0 {
		r.err = r.step()
	}
	switch {
	case r.err != nil:
		return 0, r.err
	case r.left == 0:
		return 0, io.EOF
	case len(b) == 0:
		return 0, nil
	}
	n, err := r.f.Read(b[:min(int64(len(b)), r.here, r.left)])
	r.here -= int64(n)
	r.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && n == 0:
		r.err = r.shelf.damaged("a part is too short")
	case err != nil && !errors.Is(err, io.EOF):
		r.err = r.shelf.root.fail(err)
	}
	if n > 0 {
		return n, nil // the error comes with the next Read
	}
	return 0, r.err
}

// step opens the part that holds the next byte.
func (r *reader) step() error {
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
	for r.skip >= r.m.parts[r.next].size {
		r.skip -= r.m.parts[r.next].size
		r.next++
	}
	x := r.m.parts[r.next]
	f, err := r.shelf.root.tree.Open(r.shelf.path(x.name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.shelf.lost(r.m)
	case err != nil:
		return r.shelf.root.fail(err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() != x.size {
		err = r.shelf.damaged("a part has another size")
	}
	if err == nil {
		_, err = f.Seek(r.skip, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return r.shelf.root.fail(err)
	}
	r.f, r.here, r.skip = f, x.size-r.skip, 0
	r.next++
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = fs.ErrClosed
	}
	r.shelf.close()
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return r.shelf.root.fail(err)
}
