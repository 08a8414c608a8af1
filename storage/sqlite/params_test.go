package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

func TestParse(t *testing.T) {
	t.Parallel()
	good := map[string]params{
		"/a/b.db":                      {path: "/a/b.db", wake: true},
		"/a/b c%20.db?":                {path: "/a/b c%20.db", wake: true},
		"/a/../b.db?sync=full":         {path: "/b.db", wake: true},
		"/b.db?sync=normal":            {path: "/b.db", wake: true, normal: true},
		"/b.db?wake=off&sync=normal":   {path: "/b.db", normal: true},
		"/b.db?wake=on&sync=full":      {path: "/b.db", wake: true},
		"/:memory:":                    {path: "/:memory:", wake: true},
		"/x.db-wal":                    {path: "/x.db-wal", wake: true},
		"sqlite:/a/b.db?wake=off":      {path: "/a/b.db"},
		"/sqlite:/b.db":                {path: "/sqlite:/b.db", wake: true},
		"/a:/b.db":                     {path: "/a:/b.db", wake: true},
		"/a://b.db":                    {path: "/a:/b.db", wake: true},
		"/" + strings.Repeat("ü", 100): {path: "/" + strings.Repeat("ü", 100), wake: true},
	}
	for rest, want := range good {
		want.path = filepath.FromSlash(want.path)
		if got, err := parse(rest); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v; want %+v", rest, got, err, want)
		}
	}
	bad := map[string]string{
		"":                                 "no path",
		"?sync=full":                       "no path",
		":memory:":                         "not durable",
		"//host/a.db":                      "sqlite:/absolute/path",
		"sqlite:":                          "no path",
		"sqlite::memory:":                  "not durable",
		"sqlite://host/a.db":               "sqlite:/absolute/path",
		"azure://account?prefix=a":         "sqlite:relative/path",
		"postgres://user@host/a":           "sqlite:relative/path",
		"file:a.db":                        "sqlite:relative/path",
		"a\x00b":                           "control character",
		"data/":                            "folder",
		"a.db?sync=off":                    "sync=full|normal",
		"a.db?sync":                        "sync=full|normal",
		"a.db?SYNC=full":                   "sync=full|normal",
		"a.db?&":                           "unknown",
		"a.db?x=1":                         "wake=on|off",
		"a.db?wake=on&wake=on":             "twice",
		"a.db?sync=full&sync=normal":       "twice",
		"a.db?wake=on?sync=full":           "unknown",
		"a.db?" + strings.Repeat("z", 999): "unknown",
	}
	for rest, want := range bad {
		_, err := parse(rest)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q): got error %v; want one that says %q", rest, err, want)
		}
	}
}

// A path from a file of variables or from a secret may not be what was meant. No file of that name is made, and the
// error says what was probably meant.
func TestPathThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"x.db\n": `want "x.db"`, "x.db\r\n": `want "x.db"`, "x.db ": `want "x.db"`, " x.db": `want "x.db"`, "x.db\u00a0": `want "x.db"`,
		"a\nb.db": "line break", "a\tb.db": "control character", "x.db\x7f": "control character",
		`"x.db"`: `want "x.db"`, `'data/x.db'`: `want "data/x.db"`,
		"~/x.db": "only a shell replaces", "~ada/x.db": "only a shell replaces", "~": "only a shell replaces",
		"$HOME/x.db": "variable", "${HOME}/x.db": "variable", "/data/${NAME}.db": "variable", "/data/$(NAME).db": "variable",
	} {
		for _, rest := range []string{path, "sqlite:" + path, path + "?sync=full"} {
			_, err := Open(t.Context(), rest)
			wantError(t, err, storage.ErrInvalid, want)
			if _, err := File(rest); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("File(%q): got error %v, want the driver's", rest, err)
			}
		}
	}
	for _, path := range []string{"./~/x.db", "/data/~x.db", "~x.db", "./$HOME/x.db", "/data/$x.db", "it's.db", `"x`, "a b.db", "/" + "d/~/x.db"} {
		if got, err := File("sqlite:" + path + "?wake=off"); got != path || err != nil {
			t.Errorf("File(%q): got %q, error %v; want the path", path, got, err)
		}
	}
}

func TestOpenNamesTheFault(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "x.db?mode=ro")
	wantError(t, err, storage.ErrInvalid, `"mode"`, knownParams)
}

// TestOpenKeepsSecrets opens URLs for another kind of store, with secrets. No error may hold one.
func TestOpenKeepsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, rest := range []string{
		"x.db?AccountKey=SECRET", "x.db?sync=SECRET", "x.db?sync=full&sync=SECRET", "?sig=SECRET", ":memory:?sig=SECRET", "x\x00?sig=SECRET",
		dir + "/?sig=SECRET", "sqlite:x.db?AccountKey=SECRET", "postgres://user:SECRET@host/x", "azure://x?sig=SECRET", "//user:SECRET@host/x.db", "//host/x.db?sig=SECRET", "file:x.db?key=SECRET", "file://user:SECRET@host/x.db",
	} {
		_, err := Open(t.Context(), rest)
		wantError(t, err, storage.ErrInvalid)
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("Open(%q): %v", rest, err)
		}
	}
}

// TestOpenTakesWhatItRecommends opens one file by its path and by its URL.
func TestOpenTakesWhatItRecommends(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a := openAt(t, path, "")
	for url, open := range map[string]func(context.Context, string) (*storage.Store, error){
		"sqlite:" + path: Open,
		"sqlite:" + path + "?": func(ctx context.Context, url string) (*storage.Store, error) {
			return storage.Drivers{Driver}.Open(ctx, url, storage.OpenConfig{})
		},
		path + "?wake=off":             Open,
		"sqlite:" + path + "?wake=off": Open,
	} {
		b, err := open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		send(t, b.Driver(), "queue", url)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := all(t, a, "queue"); len(got) != 4 {
		t.Errorf("%q in the file; want the messages of all four", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"data/app.db", "/a?sync=normal&wake=off", "?", ":memory:", "a?b=c&d", "//", "a?sync=full&sync=full", "sqlite:a", "sqlite:sqlite:a", "a://b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		p, err := parse(rest)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("parse(%q): %v is not ErrInvalid", rest, err)
			}
			return
		}
		if !filepath.IsAbs(p.path) || strings.ContainsRune(p.path, 0) {
			t.Errorf("parse(%q) has path %q", rest, p.path)
		}
		if strings.HasSuffix(p.path, string(filepath.Separator)) {
			return // the root, by some other name; Open sees that it is a folder
		}
		// The result, written as a URL again, is parsed to the same.
		again := p.path
		switch {
		case p.normal && p.wake:
			again += "?sync=normal"
		case p.normal:
			again += "?wake=off&sync=normal"
		case !p.wake:
			again += "?wake=off"
		}
		if q, err := parse(again); err != nil || q != p {
			t.Errorf("parse(%q) = %+v; parse(%q) = %+v, %v", rest, p, again, q, err)
		}
	})
}

func FuzzReceipt(f *testing.F) {
	for _, s := range []string{"1.a.b", string(entry{id: 1, gen: peers.AnonymousGeneration(), visible: 1}.receipt()), "", ".", "..", "1.5", "-1.5.6", "+1.5.6", "01.5.6", "1.5.6.7", "zzzzzzzzzzzzzzz.1.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, ok := parseReceipt(storage.Receipt(s))
		if ok && string(e.receipt()) != s {
			t.Errorf("parseReceipt(%q) = %+v, which is %q", s, e, e.receipt())
		}
		if ok && (e.id < 1 || e.gen < 1 || e.visible < 1) {
			t.Errorf("parseReceipt(%q) = %+v", s, e)
		}
	})
}

func FuzzETag(f *testing.F) {
	f.Add("0123456789abcdef")
	f.Add("0123456789ABCDEF")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := parseETag(storage.ETag(s)); ok && s != "" && string(formatETag(v)) != s {
			t.Errorf("parseETag(%q) = %d, which is %q", s, v, formatETag(v))
		}
	})
}

// The place of a store is its file's real path, whatever leads to it.
func TestPlaceIsTheRealPath(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.path, link); err != nil {
		t.Fatal(err)
	}
	other := openAt(t, link, "?wake=off")
	if one, two := s.Props().Place, other.Props().Place; one != two || !strings.HasPrefix(one, "sqlite /") || !strings.HasSuffix(one, "/test.db") {
		t.Errorf("got places %q and %q, want one, with the path", one, two)
	}
}
