package assets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// A Config says where a program's static files are, and where browsers find them.
type Config struct {
	// Dir is the folder with the files. All files in it and below it are served, except hidden ones: those whose name, or
	// whose folder's name, begins with a dot. Defaults to the root of the file system.
	Dir string

	// Also are files that the program makes, by their names. A file of the folder with the same name isn't served.
	Also map[string][]byte

	// Path is the path at which the program serves the files. It begins and ends with a slash, and is the same in a URL.
	// Defaults to "/assets/".
	Path string

	// Base is the URL of another origin that has the files, such as https://ACCOUNT.blob.core.windows.net/web/ or that
	// of a network that delivers content. The URL ends with a slash. Pages name that origin once all files are there.
	// Defaults to none.
	Base string

	// Logger gets a warning when Base lacks files, and a word when it has them again. Defaults to slog.Default().
	Logger *slog.Logger
}

// The limits keep the files of a set in memory, and each of them in a document of any store.
const (
	maxFiles = 10_000
	maxFile  = 16 << 20
	maxName  = 200
)

// A Set is the static files of one version of a program. It never changes, and is safe for concurrent use.
type Set struct {
	cfg    Config
	files  map[string]*file // by their plain names
	served map[string]*file // by the names with digests
	origin *origin          // nil without Base
}

// New reads all files of a folder. Style sheets that refer to other files of the folder, by url(…) or @import, refer to
// their names with digests afterwards. New fails if a style sheet refers to a file that isn't there, or if two import
// each other.
func New(files fs.FS, cfg Config) (*Set, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("assets: %w", err)
	}
	bodies, err := read(files, cfg)
	if err != nil {
		return nil, fmt.Errorf("assets: %w", err)
	}
	s := &Set{cfg: cfg, files: map[string]*file{}, served: map[string]*file{}}
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		if err := s.add(name, bodies, nil); err != nil {
			return nil, fmt.Errorf("assets: %w", err)
		}
	}
	if cfg.Base != "" {
		s.origin = newOrigin(cfg, slices.SortedFunc(maps.Values(s.files), func(a, b *file) int { return cmp.Compare(a.name, b.name) }))
	}
	return s, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...)
}

func (c Config) complete() (Config, error) {
	c.Dir, c.Path, c.Logger = cmp.Or(c.Dir, "."), cmp.Or(c.Path, "/assets/"), cmp.Or(c.Logger, slog.Default())
	if !fs.ValidPath(c.Dir) {
		return c, bad("Dir %s: want a folder of the file system, such as static, without a slash at its ends", storage.Quote(c.Dir))
	}
	if !strings.HasPrefix(c.Path, "/") || strings.TrimSuffix(path.Clean(c.Path), "/")+"/" != c.Path || (&url.URL{Path: c.Path}).EscapedPath() != c.Path {
		return c, bad("Path %s: want a path with a slash at both ends, such as /assets/, and nothing in it that a URL has to encode", storage.Quote(c.Path))
	}
	if c.Base == "" {
		return c, nil
	}
	u, err := url.Parse(c.Base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !strings.HasSuffix(c.Base, "/") {
		return c, bad("Base: want a URL that begins with https:// and ends with a slash, without a query") // it may hold a secret
	}
	return c, nil
}

// read returns what all files hold, by their names.
func read(files fs.FS, cfg Config) (map[string][]byte, error) {
	bodies := map[string][]byte{}
	if files != nil {
		sub, err := fs.Sub(files, cfg.Dir)
		if err != nil {
			return nil, err
		}
		err = fs.WalkDir(sub, ".", func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case name != "." && strings.HasPrefix(e.Name(), "."): // .env and .git aren't for browsers
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			case e.IsDir():
				return nil
			}
			info, err := fs.Stat(sub, name) // a link to a file is as good as the file
			if err != nil || !info.Mode().IsRegular() {
				return bad("%s is no file, nor a link to one", storage.Quote(name))
			}
			if err := check(name, info.Size(), len(bodies)); err != nil {
				return err
			}
			bodies[name], err = fs.ReadFile(sub, name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for name, body := range cfg.Also {
		if err := check(name, int64(len(body)), len(bodies)); err != nil {
			return nil, err
		}
		bodies[name] = body
	}
	if len(bodies) == 0 {
		return nil, bad("there is no file in %s", storage.Quote(cfg.Dir))
	}
	return bodies, nil
}

// check says what keeps a file from being served. before is how many files there are already.
func check(name string, size int64, before int) error {
	switch _, digest := plainName(name); {
	case before >= maxFiles:
		return bad("there are more than %d files; leave out what pages don't use", maxFiles)
	case !fs.ValidPath(name) || len(name) > maxName || strings.ContainsFunc(name, strange):
		return bad("the name of the file %s: want at most %d letters and digits of ASCII, '-', '_', '.' and '/'", storage.Quote(name), maxName)
	case size > maxFile:
		return bad("the file %s has more than %d MiB", storage.Quote(name), maxFile>>20)
	case digest:
		return bad("the name of the file %s looks as if it had a digest already", storage.Quote(name))
	}
	return nil
}

func strange(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
}

// add takes a file into the set, after those to which it refers. within are the style sheets that have led to the file.
func (s *Set) add(name string, bodies map[string][]byte, within []string) error {
	if s.files[name] != nil {
		return nil
	}
	if slices.Contains(within, name) {
		return bad("style sheets import each other: %s", strings.Join(append(within, name), ", "))
	}
	body := bodies[name]
	if strings.HasSuffix(strings.ToLower(name), ".css") {
		var err error
		if body, err = s.rewrite(name, bodies, append(slices.Clip(within), name)); err != nil {
			return err
		}
	}
	f := newFile(name, body)
	if other := s.served[f.name]; other != nil {
		return bad("the files %s and %s have the same name with a digest", storage.Quote(name), storage.Quote(other.name))
	}
	f.local, f.elsewhere = s.cfg.Path+f.name, s.cfg.Base+f.name
	s.files[name], s.served[f.name] = f, f
	return nil
}

// Name returns the name under which a file is served, behind Config.Path. It is empty if there is no such file.
func (s *Set) Name(name string) string {
	if f := s.files[name]; f != nil {
		return f.name
	}
	return ""
}

// Names returns the names of all files as they are served, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.served)) }

// ErrUnknown is that the set has no file of a name.
var ErrUnknown = errors.New("no such static file")

// URL returns where a browser finds the file that the folder has under a name: a path of the program, or a URL of
// another origin that has all files. It returns an error that matches [ErrUnknown] if there is no such file.
func (s *Set) URL(name string) (string, error) {
	f, err := s.find(name)
	if err != nil {
		return "", err
	}
	return s.place(f), nil
}

func (s *Set) find(name string) (*file, error) {
	f := s.files[name]
	if f == nil {
		return nil, fmt.Errorf("assets: %w: %s; the folder %s has it not", ErrUnknown, storage.Quote(name), storage.Quote(s.cfg.Dir))
	}
	return f, nil
}

// place is where pages find a file.
func (s *Set) place(f *file) string {
	if s.origin != nil && s.origin.hasAll() {
		return f.elsewhere
	}
	return f.local
}
