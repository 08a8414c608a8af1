package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/millrace-go/millrace/storage/driver"
)

// copyStep is how many bytes are copied between two looks at the context.
const copyStep = 16 << 20

// Copy implements driver.Files. A copy that comes again, while the first is there and no parts have come since, changes
// nothing.
func (d *Folder) Copy(ctx context.Context, container, key string, etag driver.ETag, toContainer, to string) (driver.FileInfo, error) {
	s, m, err := d.file(ctx, container, key)
	if errors.Is(err, driver.ErrNotFound) || err == nil && m.ETag != etag {
		err = precondition(err)
	}
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return driver.FileInfo{}, err
	}
	c := &copying{begin: func() error { return d.begin(ctx) }, root: s.root, from: s, to: &shelf{s.root, placeOf(toContainer, to)}, m: m}
	defer c.removeTemps()
	if err := c.prepare(d.byBytes); err != nil {
		return driver.FileInfo{}, err
	}
	unlock, err := d.locks.lock(ctx, c.to)
	if err != nil {
		return driver.FileInfo{}, err
	}
	defer unlock()
	return c.finish()
}

// copying is one Copy.
type copying struct {
	begin    func() error // why it can't go on
	root     *root
	from, to *shelf
	m        *manifest // what is copied
	temps    []string  // the copied bytes of the parts, where there are no hard links
}

func (c *copying) source() source { return source{c.from.place.container, c.from.place.key, c.m.ETag} }

// prepare copies the bytes where there are no hard links. It holds no lock, since that may take long.
func (c *copying) prepare(byBytes bool) error {
	if !byBytes {
		probe := newTemp()
		err := c.link(c.m.parts[0], probe)
		if err == nil {
			return c.root.fail(c.root.remove(probe))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return c.from.lost(c.m)
		}
	}
	for _, x := range c.m.parts {
		if err := c.copyBytes(x); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) link(x part, to string) error { return c.root.tree.Link(c.from.path(x.name), to) }

// copyBytes copies a part to a temporary file.
func (c *copying) copyBytes(x part) error {
	in, err := c.root.tree.Open(c.from.path(x.name))
	if errors.Is(err, fs.ErrNotExist) {
		return c.from.lost(c.m)
	}
	if err != nil {
		return c.root.fail(err)
	}
	defer func() { _ = in.Close() }()
	temp := newTemp()
	out, err := c.root.create(temp)
	if err != nil {
		return c.root.fail(err)
	}
	c.temps = append(c.temps, temp)
	for left := x.size; left > 0 && err == nil; left -= copyStep {
		if err = c.begin(); err == nil {
			_, err = io.CopyN(out, in, min(left, copyStep))
		}
	}
	if errors.Is(err, io.EOF) {
		err = c.from.damaged("a part is too short")
	}
	if err == nil {
		err = out.Sync()
	}
	return c.root.fail(errors.Join(err, out.Close()))
}

// finish gives the parts their names at the new place, and makes them the file there. The caller holds the lock.
func (c *copying) finish() (driver.FileInfo, error) {
	if err := c.to.build(); err != nil {
		return driver.FileInfo{}, err
	}
	there, err := c.to.look()
	if err != nil {
		return driver.FileInfo{}, err
	}
	if m := there.m; m != nil && m.From != nil && *m.From == c.source() && len(there.waiting) == 0 {
		return m.info(), c.root.fail(c.root.sync(c.to.place.dir)) // the first may not have ended
	}
	parts, err := c.name()
	if err != nil {
		c.to.drop(parts)
		return driver.FileInfo{}, err
	}
	m, from := newManifest(c.to.place, parts), c.source()
	m.From = &from
	if err := c.to.replace(there, m); err != nil {
		if now, failed := c.to.read(); failed == nil && (now == nil || now.ETag != m.ETag) {
			c.to.drop(parts)
		}
		return driver.FileInfo{}, err
	}
	return m.info(), nil
}

// name gives the parts names at the new place. Beside an error are the parts that have names.
func (c *copying) name() (named []part, err error) {
	for i, x := range c.m.parts {
		if err := c.begin(); err != nil {
			return named, err
		}
		y := newPart(kindCopied, i+1, 0, x.size)
		if c.temps != nil {
			err = c.root.tree.Rename(c.temps[i], c.to.path(y.name))
		} else {
			err = c.link(x, c.to.path(y.name))
		}
		switch {
		case err == nil:
			named = append(named, y)
		case errors.Is(err, fs.ErrNotExist):
			return named, c.from.lost(c.m)
		default:
			return named, c.root.fail(err)
		}
	}
	return named, nil
}

func (c *copying) removeTemps() {
	for _, temp := range c.temps {
		_ = c.root.remove(temp)
	}
}

// precondition is the error of a Copy whose source isn't there, or is another one.
func precondition(err error) error {
	if err == nil {
		return driver.ErrPrecondition
	}
	return fmt.Errorf("%w: %w", driver.ErrPrecondition, err)
}
