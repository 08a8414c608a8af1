package folder

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/millrace-go/millrace/storage/driver"
)

// shelf is what lies under a key.
type shelf struct {
	root  *root
	place place
}

func (s *shelf) close() { _ = s.root.tree.Close() }

func (s *shelf) path(name string) string { return s.place.dir + "/" + name }

// damaged is the error about a file whose parts aren't what they were.
func (s *shelf) damaged(why string) error {
	return fmt.Errorf("%w: %s in folder %s: restore the folder from a backup", driver.ErrUnavailable, why, driver.Quote(filepath.Join(s.root.disk.path, s.place.dir)))
}

// lost says why a part of a file isn't there any more.
func (s *shelf) lost(m *manifest) error {
	now, err := s.read()
	switch {
	case err != nil:
		return err
	case now == nil || now.ETag != m.ETag:
		return driver.ErrPrecondition
	}
	return s.damaged("a part is missing")
}

// build makes the folder of a key. The caller holds the lock.
func (s *shelf) build() error {
	if err := s.root.makeDir(".", s.place.parent); err != nil {
		return s.root.fail(err)
	}
	return s.root.fail(s.root.makeDir(s.place.parent, s.place.dir))
}

// content is what a shelf holds.
type content struct {
	m       *manifest // nil: no file
	waiting []part    // came since the manifest; of each number the newest
	other   []part    // what counts no more
}

// look tells what is there. A missing folder is empty. The caller holds the lock.
func (s *shelf) look() (content, error) {
	all, err := s.list()
	if err != nil {
		return content{}, err
	}
	m, err := s.read()
	if err != nil {
		return content{}, err
	}
	return sorted(m, all), nil
}

func sorted(m *manifest, all []part) content {
	c := content{m: m}
	used, dropped := map[string]bool{}, map[string]bool{}
	if m != nil {
		for _, name := range m.Parts {
			used[name] = true
		}
		for _, name := range m.Dropped {
			dropped[name] = true
		}
	}
	newest := map[int]part{}
	for _, x := range all {
		if used[x.name] {
			continue
		}
		if dropped[x.name] || x.kind == kindCopied {
			c.other = append(c.other, x)
			continue
		}
		have, ok := newest[x.number]
		if ok && have.newer(x) {
			x, have = have, x
		}
		if newest[x.number] = x; ok {
			c.other = append(c.other, have)
		}
	}
	for _, x := range newest {
		c.waiting = append(c.waiting, x)
	}
	return c
}

// next returns the parts that a Commit would take, by number.
func (c *content) next() map[int]part {
	next := map[int]part{}
	if c.m != nil {
		for i, x := range c.m.parts {
			next[i+1] = x
		}
	}
	for _, x := range c.waiting {
		next[x.number] = x
	}
	return next
}

// list returns the parts that are there, whatever becomes of them.
func (s *shelf) list() ([]part, error) {
	names, err := s.root.names(s.place.dir, -1)
	if err != nil {
		return nil, s.root.fail(err)
	}
	parts := make([]part, 0, len(names))
	for _, name := range names {
		if x, ok := parsePart(name); ok {
			parts = append(parts, x)
		}
	}
	return parts, nil
}

// replace puts a manifest in the place of what is there, and removes the parts that it doesn't name.
func (s *shelf) replace(c content, m *manifest) error {
	over := slices.Concat(c.other, c.waiting)
	if c.m != nil {
		over = append(over, c.m.parts...)
	}
	used := map[string]bool{}
	for _, name := range m.Parts {
		used[name] = true
	}
	over = slices.DeleteFunc(over, func(x part) bool { return used[x.name] })
	for _, x := range over {
		if x.kind == kindPut {
			m.Dropped = append(m.Dropped, x.name)
		}
	}
	if err := s.write(m); err != nil {
		return err
	}
	s.drop(over)
	return nil
}

// drop removes parts that count no more. The next call that does so removes what can't be removed now.
func (s *shelf) drop(parts []part) {
	for _, x := range parts {
		_ = s.root.remove(s.path(x.name))
	}
}

// clear removes the manifest, then all else. The caller holds the lock.
func (s *shelf) clear() error {
	names, err := s.root.names(s.place.dir, -1)
	if err != nil {
		return err
	}
	if slices.Contains(names, manifestName) {
		if err := s.root.remove(s.path(manifestName)); err != nil {
			return err
		}
		if err := s.root.sync(s.place.dir); err != nil { // no manifest may come back without its parts
			return err
		}
	}
	for _, name := range names {
		if err := s.root.remove(s.path(name)); err != nil {
			return err
		}
	}
	if names == nil {
		return s.root.remove(s.place.dir)
	}
	if err := s.root.remove(s.place.dir); err != nil {
		return err
	}
	return s.root.sync(s.place.parent)
}
