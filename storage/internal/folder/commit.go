package folder

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/storage/driver"
)

// Parts implements driver.Files.
func (d *Folder) Parts(ctx context.Context, container, key string) ([]driver.FilePart, error) {
	var parts []driver.FilePart
	err := d.locked(ctx, container, key, func(s *shelf) error {
		c, err := s.look()
		if err != nil {
			return err
		}
		next := c.next()
		for _, number := range slices.Sorted(maps.Keys(next)) {
			parts = append(parts, driver.FilePart{Number: number, Size: next[number].size})
		}
		return nil
	})
	return parts, err
}

// Commit implements driver.Files.
func (d *Folder) Commit(ctx context.Context, container, key string, sizes []int64) (driver.FileInfo, error) {
	var m *manifest
	err := d.locked(ctx, container, key, func(s *shelf) error {
		c, err := s.look()
		if err != nil {
			return err
		}
		parts, err := choose(c.next(), sizes)
		if err != nil {
			return err
		}
		m, err = s.commit(c, parts)
		return err
	})
	if err == nil && m == nil { // nobody has made the folder
		_, err = choose(nil, sizes)
	}
	if err != nil {
		return driver.FileInfo{}, err
	}
	return m.info(), nil
}

// choose takes the parts of a file. All must be there and have their sizes.
func choose(next map[int]part, sizes []int64) ([]part, error) {
	parts := make([]part, len(sizes))
	for i, size := range sizes {
		x, ok := next[i+1]
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: part %d is missing", driver.ErrPrecondition, i+1)
		case x.size != size:
			return nil, fmt.Errorf("%w: part %d has %d bytes, not %d", driver.ErrPrecondition, i+1, x.size, size)
		}
		parts[i] = x
	}
	return parts, nil
}

// commit makes parts the file of a key. All other parts go.
func (s *shelf) commit(c content, parts []part) (*manifest, error) {
	m := newManifest(s.place, parts)
	if c.m != nil && slices.Equal(c.m.Parts, m.Parts) {
		if len(c.waiting) == 0 { // it comes again; the first may not have ended
			return c.m, s.root.fail(s.root.sync(s.place.dir))
		}
		m.ETag, m.From = c.m.ETag, c.m.From
	}
	return m, s.replace(c, m)
}
