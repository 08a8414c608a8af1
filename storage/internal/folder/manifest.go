package folder

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	manifestName = "manifest"
	manifestTemp = "manifest.new" // written by the holder of the lock alone
)

// manifest is what makes a file of parts.
type manifest struct {
	Container string      `json:"container"` // for people who look at the folder
	Key       string      `json:"key"`
	ETag      driver.ETag `json:"etag"`
	Size      int64       `json:"size"`
	Parts     []string    `json:"parts"`             // 1, 2, … by the names of their files
	Dropped   []string    `json:"dropped,omitempty"` // parts that came before and aren't of the file: they count no more
	From      *source     `json:"from,omitempty"`    // of a copy

	parts []part
}

// source is what a file is a copy of.
type source struct {
	Container string      `json:"container"`
	Key       string      `json:"key"`
	ETag      driver.ETag `json:"etag"`
}

func newManifest(p place, parts []part) *manifest {
	m := &manifest{Container: p.container, Key: p.key, ETag: driver.ETag(rand.Text()), parts: parts}
	for _, x := range parts {
		m.Parts = append(m.Parts, x.name)
		m.Size += x.size
	}
	return m
}

func (m *manifest) info() driver.FileInfo { return driver.FileInfo{Size: m.Size, ETag: m.ETag} }

// parse reads a manifest. ok is false if it isn't what newManifest has made.
func parse(text []byte) (m *manifest, ok bool) {
	m = new(manifest)
	if err := json.Unmarshal(text, m); err != nil || m.ETag == "" || len(m.Parts) == 0 {
		return nil, false
	}
	size := int64(0)
	for _, name := range m.Parts {
		x, ok := parsePart(name)
		if !ok {
			return nil, false
		}
		m.parts = append(m.parts, x)
		size += x.size
	}
	return m, size == m.Size
}

// read returns the manifest of a key, or nil without one.
func (s *shelf) read() (*manifest, error) {
	text, err := s.root.tree.ReadFile(s.path(manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.root.fail(err)
	}
	m, ok := parse(text)
	if !ok {
		return nil, s.damaged("the manifest can't be read")
	}
	return m, nil
}

// write puts a manifest in its place. The parts that it names are durable before it.
func (s *shelf) write(m *manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	temp := s.path(manifestTemp)
	if err := s.root.remove(temp); err != nil { // of a process that was killed
		return s.root.fail(err)
	}
	f, err := s.root.create(temp)
	if err != nil {
		return s.root.fail(err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.sync(s.place.dir)
	}
	if err != nil {
		return s.root.fail(errors.Join(err, s.root.remove(temp)))
	}
	if err := s.root.tree.Rename(temp, s.path(manifestName)); err != nil {
		return s.root.fail(err)
	}
	return s.root.fail(s.root.sync(s.place.dir))
}
