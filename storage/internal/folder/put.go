package folder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferSize is the memory of a part that comes.
	bufferSize = 32 << 10

	// maxTempAge is when a temporary file is one of a dead process.
	maxTempAge = 24 * time.Hour

	sweepStep = time.Hour
	mostSwept = 1000 // at a time
)

// intake is where parts come in.
type intake struct {
	buffers sync.Pool
	swept   atomic.Int64 // when .temp was last swept, in seconds since 1970
}

// PutPart implements driver.Files.
func (d *Folder) PutPart(ctx context.Context, container, key string, number int, size int64, body io.Reader) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	root, err := d.disk.make()
	if err != nil {
		return err
	}
	s := &shelf{root, placeOf(container, key)}
	defer s.close()
	d.intake.sweep(root)
	temp := newTemp()
	if err := d.receive(ctx, root, temp, size, body); err != nil {
		return err
	}
	replaces, err := d.shelve(ctx, s, temp, number, size)
	if err != nil {
		_ = root.remove(temp)
		return err
	}
	if err := s.root.sync(s.place.dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // a Delete may have come
		return s.root.fail(err)
	}
	if replaces {
		d.dropReplaced(ctx, s)
	}
	return nil
}

// receive writes a body to a temporary file, syncs and closes it. If that fails, nothing is left.
func (d *Folder) receive(ctx context.Context, root *root, temp string, size int64, body io.Reader) error {
	f, err := root.create(temp)
	if err != nil {
		return root.fail(err)
	}
	buffer := d.intake.buffers.Get().(*[bufferSize]byte)
	defer d.intake.buffers.Put(buffer)
	err = d.pour(ctx, f, size, body, buffer[:])
	if err == nil {
		err = root.fail(f.Sync())
	}
	if err = cmp.Or(err, root.fail(f.Close())); err != nil { // an error of the body comes back as it is
		_ = root.remove(temp)
	}
	return err
}

// pour copies a body. Errors of the body stay as they are.
func (d *Folder) pour(ctx context.Context, f *os.File, size int64, body io.Reader, buffer []byte) error {
	for left := size; left > 0; {
		if err := d.begin(ctx); err != nil {
			return err
		}
		n, err := body.Read(buffer[:min(left, int64(len(buffer)))])
		if _, failed := f.Write(buffer[:n]); failed != nil {
			return d.disk.fail(failed)
		}
		left -= int64(n)
		switch {
		case left == 0 || err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the body of %d bytes has %d", io.ErrUnexpectedEOF, size, size-left)
		default:
			return err
		}
	}
	return d.begin(ctx)
}

// shelve gives a temporary file the name of a part. replaces reports that older parts of the number may be there.
func (d *Folder) shelve(ctx context.Context, s *shelf, temp string, number int, size int64) (replaces bool, err error) {
	unlock, err := d.locks.lock(ctx, s)
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := s.build(); err != nil {
		return false, err
	}
	all, err := s.list()
	if err != nil {
		return false, err
	}
	turn := 0
	for _, x := range all {
		if x.number == number && x.kind == kindPut {
			turn, replaces = max(turn, x.turn), true
		}
	}
	x := newPart(kindPut, number, turn+1, size)
	return replaces, s.root.fail(s.root.tree.Rename(temp, s.path(x.name)))
}

// dropReplaced removes parts that newer ones have replaced, once the newer ones are durable. If it fails, the next
// Commit does it.
func (d *Folder) dropReplaced(ctx context.Context, s *shelf) {
	unlock, err := d.locks.lock(ctx, s)
	if err != nil {
		return
	}
	defer unlock()
	if c, err := s.look(); err == nil {
		s.drop(c.other)
	}
}

func newTemp() string {
	return fmt.Sprintf("%s/%d-%s", tempDir, time.Now().Unix(), rand.Text())
}

// sweep removes, now and then, the temporary files of processes that are dead.
func (i *intake) sweep(root *root) {
	now, last := time.Now(), i.swept.Load()
	if now.Unix()-last < int64(sweepStep/time.Second) || !i.swept.CompareAndSwap(last, now.Unix()) {
		return
	}
	names, err := root.names(tempDir, mostSwept)
	if err != nil {
		return // the call itself meets what is wrong
	}
	for _, name := range names {
		if begun, _, _ := strings.Cut(name, "-"); !old(begun, now) {
			continue
		}
		path := tempDir + "/" + name
		if info, err := root.tree.Lstat(path); err == nil && now.Sub(info.ModTime()) > maxTempAge { // nobody writes to it
			_ = root.remove(path)
		}
	}
}

// old reports whether a temporary file was made long ago.
func old(begun string, now time.Time) bool {
	seconds, err := strconv.ParseInt(begun, 10, 64)
	return err != nil || now.Sub(time.Unix(seconds, 0)) > maxTempAge
}
