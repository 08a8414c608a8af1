package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/internal/beside"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

// A cached is what a node keeps in its cache: the version that it applied last.
type cached struct {
	Name    string          `json:"name"`
	Epoch   int64           `json:"epoch"`
	Version int64           `json:"version"`
	Values  json.RawMessage `json:"values"`
	Digest  string          `json:"digest"` // of all that
}

func (c cached) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", c.Name, c.Epoch, c.Version, c.Values))
	return hex.EncodeToString(sum[:])
}

// save replaces the cache. After a crash the file is the old one or the new one.
func (c cached) save(path string) error {
	c.Digest = c.digest()
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return beside.Replace(path, ownersFile(path), data)
}

// ownersFile returns the file whose owner gets the cache where root writes it: the spool that the cache lies beside,
// or else the folder.
func ownersFile(path string) string {
	if spool := strings.TrimSuffix(path, filepath.Ext(path)); spool != path {
		if _, err := os.Stat(spool); err == nil {
			return spool
		}
	}
	return filepath.Dir(path)
}

// errNoCache is the error of a node that has no cache, or never wrote it.
var errNoCache = fmt.Errorf("%w: there is no cache", storage.ErrNotFound)

// load reads the cache of a name.
func load(path, name string) (cached, error) {
	if path == "" {
		return cached{}, errNoCache
	}
	data, err := beside.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cached{}, errNoCache
	}
	if err != nil {
		return cached{}, fmt.Errorf("the cache file %s: %w", storage.Quote(path), err)
	}
	c, err := parseCache(data, name)
	if errors.Is(err, errForeign) {
		return cached{}, fmt.Errorf("the cache file %s: %w: give each program its own, and where the file lies beside a spool, its own spool; delete it only if this program had that name", storage.Quote(path), err)
	}
	if err != nil {
		return cached{}, fmt.Errorf("the cache file %s: %w; delete the file", storage.Quote(path), err)
	}
	return c, nil
}

// errForeign begins the text about a cache of another program.
var errForeign = errors.New("it is that of the settings")

func parseCache(data []byte, name string) (cached, error) {
	c, err := jsonform.DecodeStrictly[cached](data)
	switch {
	case err != nil:
	case c.Digest != c.digest():
		err = errors.New("its digest doesn't fit: it is damaged")
	case c.Name != name:
		err = fmt.Errorf("%w %s", errForeign, storage.Quote(c.Name))
	default:
		_, err = parseTree(c.Values)
	}
	if err != nil {
		return cached{}, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	return c, nil
}
