package assets_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// folder makes a file system of texts by their names.
func folder(texts map[string]string) fs.FS {
	files := fstest.MapFS{}
	for name, text := range texts {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func newSet(t testing.TB, texts map[string]string, cfg assets.Config) *assets.Set {
	t.Helper()
	s, err := assets.New(folder(texts), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openStore(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db")+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// get asks a handler for a path. fields are names and values of the request's header.
func get(t testing.TB, h http.Handler, url string, fields ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func urlOf(t testing.TB, s *assets.Set, name string) string {
	t.Helper()
	u, err := s.URL(name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// digest is what a name says of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Law A1: a name says what the file holds, so another text has another name, and the same text the same name.
func TestLawANameSaysWhatTheFileHolds(t *testing.T) {
	t.Parallel()
	s := newSet(t, map[string]string{"site.js": "one", "img/logo.svg": "<svg/>", "LICENSE": "free"}, assets.Config{Path: "/static/"})
	for name, want := range map[string]string{
		"site.js":      "/static/site." + digest("one") + ".js",
		"img/logo.svg": "/static/img/logo." + digest("<svg/>") + ".svg",
		"LICENSE":      "/static/LICENSE." + digest("free"),
	} {
		if got := urlOf(t, s, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	next := newSet(t, map[string]string{"site.js": "two", "img/logo.svg": "<svg/>"}, assets.Config{Path: "/static/"})
	if urlOf(t, s, "site.js") == urlOf(t, next, "site.js") || urlOf(t, s, "img/logo.svg") != urlOf(t, next, "img/logo.svg") {
		t.Error("a name doesn't say what the file holds")
	}
	if _, err := s.URL("site.css"); !errors.Is(err, assets.ErrUnknown) || !strings.Contains(err.Error(), "site.css") {
		t.Errorf("an unknown file: got %v", err)
	}
}

// Law A1: what was published is never written again, and law A3: what older versions have published stays.
func TestLawPublishedFilesStay(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	old := newSet(t, map[string]string{"a.js": "old", "b.js": "same"}, assets.Config{})
	next := newSet(t, map[string]string{"a.js": "new", "b.js": "same"}, assets.Config{})
	seen := map[string]storage.ETag{}
	for range 2 {
		for _, s := range []*assets.Set{old, next} {
			if err := s.Publish(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			for info, err := range store.Blobs("assets").List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if was := seen[info.Key]; was != "" && was != info.ETag {
					t.Errorf("%s was written again", info.Key)
				}
				seen[info.Key] = info.ETag
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("got %d files, want 3: %v", len(seen), seen)
	}
	if err := old.Publish(t.Context(), nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("without a store: got %v", err)
	}
}

// While a deployment rolls, each program has the files of the other: no request of 1,000 pages fails, whichever program
// makes the page, and whichever is asked for its files.
func TestTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	cfg := assets.Config{Path: "/static/"}
	old := newSet(t, map[string]string{"site.css": "a{background:url(x.svg)}", "x.svg": "<svg>1</svg>", "site.js": "1"}, cfg)
	next := newSet(t, map[string]string{"site.css": "b{background:url(x.svg)}", "x.svg": "<svg>2</svg>", "site.js": "1"}, cfg)
	programs := []*assets.Set{old, next}
	var handlers []http.Handler
	for _, s := range programs {
		if err := s.Publish(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, s.Handler(assets.HandlerConfig{Store: store}))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 1000 {
		page, name := programs[r.IntN(2)], []string{"site.css", "x.svg", "site.js"}[n%3]
		url := urlOf(t, page, name)
		resp := get(t, handlers[r.IntN(2)], url)
		if text := body(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(url, digest(text)) {
			t.Fatalf("load %d: %s: got %s %q", n, url, resp.Status, text)
		}
	}
}

// Law A4: no cache keeps an answer that there is no such file, and a plain name leads to the name of today.
func TestLawAMissIsKeptByNobody(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newSet(t, map[string]string{"site.js": "one", "img/a.svg": "<svg/>"}, assets.Config{Path: "/static/"})
	for _, h := range []http.Handler{s.Handler(assets.HandlerConfig{}), s.Handler(assets.HandlerConfig{Store: store})} {
		for _, url := range []string{"/static/site.0123456789abcdef.js", "/static/nothing.js", "/static/", "/static/img/", "/static/../site.js", "/other/site.js", "/static/%00.0123456789abcdef.js", "/static/" + strings.Repeat("a", 500) + ".0123456789abcdef.js"} {
			resp := get(t, h, url)
			if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%.60s: got %s, %q; want 404 that nobody keeps", url, resp.Status, resp.Header.Get("Cache-Control"))
			}
		}
		for _, name := range []string{"site.js", "img/a.svg"} {
			resp := get(t, h, "/static/"+name)
			if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusTemporaryRedirect || to != urlOf(t, s, name) || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: got %s to %q", name, resp.Status, to)
			}
		}
	}
}

// Law A5: an element has the digest of its file. Nobody who writes into the store can serve another text under a name.
func TestLawNobodyCanServeAnotherText(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newSet(t, map[string]string{"site.js": "alert(1)", "site.css": "a{}", "app.js": "b()"}, assets.Config{Path: "/static/"})
	page := template.Must(template.New("").Funcs(s.Funcs()).Parse(`{{script "site.js"}}{{stylesheet "site.css"}}{{module "app.js"}}<img src="{{asset "site.css"}}" data-x="{{integrity "site.js"}}">`))
	var b bytes.Buffer
	if err := page.Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	integrity := func(text string) string {
		sum := sha512.Sum384([]byte(text))
		return "sha384-" + base64.StdEncoding.EncodeToString(sum[:])
	}
	for _, want := range []string{
		`<script defer src="` + urlOf(t, s, "site.js") + `" integrity="` + integrity("alert(1)") + `"></script>`,
		`<link rel="stylesheet" href="` + urlOf(t, s, "site.css") + `" integrity="` + integrity("a{}") + `">`,
		`<script type="module" src="` + urlOf(t, s, "app.js") + `" integrity="` + integrity("b()") + `"></script>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s\nwant in it %s", b.String(), want)
		}
	}
	if err := template.Must(template.New("").Funcs(s.Funcs()).Parse(`{{script "no.js"}}`)).Execute(io.Discard, nil); !errors.Is(err, assets.ErrUnknown) {
		t.Errorf("a page with an unknown file: got %v", err)
	}

	forged := "site." + digest("good") + ".js"
	if _, err := store.Blobs("assets").Put(t.Context(), forged, []byte("evil"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if resp := get(t, s.Handler(assets.HandlerConfig{Store: store}), "/static/"+forged); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a text that isn't what its name says: got %s", resp.Status)
	}
}

// All files of any folder are served whole, by gzip and without.
func TestAnyFolder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		texts := map[string]string{}
		for n := range 1 + r.IntN(20) {
			name := fmt.Sprintf("%s%d%s", []string{"", "a/", "a/b/"}[r.IntN(3)], n, []string{".css", ".js", ".png", "", ".txt", ".woff2"}[r.IntN(6)])
			texts[name] = strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(5000))
		}
		s := newSet(t, texts, assets.Config{})
		h := s.Handler(assets.HandlerConfig{})
		for name, text := range texts {
			url := urlOf(t, s, name)
			resp := get(t, h, url)
			if got := body(t, resp); resp.StatusCode != http.StatusOK || got != text || resp.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: got %s, %d bytes, %v; want %d bytes", name, resp.Status, len(got), resp.Header, len(text))
			}
			packed := get(t, h, url, "Accept-Encoding", "br, gzip")
			got := body(t, packed)
			if packed.Header.Get("Content-Encoding") == "gzip" {
				if length := packed.Header.Get("Content-Length"); length != fmt.Sprint(len(got)) {
					t.Errorf("%s by gzip: got the length %q, want %d", name, length, len(got))
				}
				z, err := gzip.NewReader(strings.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				all, err := io.ReadAll(z)
				if got = string(all); err != nil || packed.Header.Get("ETag") == resp.Header.Get("ETag") || packed.Header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("%s by gzip: %v, %v", name, err, packed.Header)
				}
			} else if len(text) > 2000 && regexp.MustCompile(`\.(css|js|txt)$`).MatchString(name) {
				t.Errorf("%s: %d bytes aren't packed", name, len(text))
			}
			if got != text {
				t.Errorf("%s by gzip: got %d bytes, want %d", name, len(got), len(text))
			}
			if again := get(t, h, url, "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
				t.Errorf("%s: got %s, want 304", name, again.Status)
			}
		}
	}
}

// Files that the program makes stand beside those of the folder, and in place of those.
func TestFilesThatTheProgramMakes(t *testing.T) {
	t.Parallel()
	also := map[string][]byte{"made.css": []byte("a{background:url(logo.svg)}"), "site.js": []byte("made")}
	s := newSet(t, map[string]string{"logo.svg": "<svg/>", "site.js": "from the folder"}, assets.Config{Also: also})
	h := s.Handler(assets.HandlerConfig{})
	for name, want := range map[string]string{"made.css": "a{background:url(" + s.Name("logo.svg") + ")}", "site.js": "made"} {
		if got := body(t, get(t, h, "/assets/"+s.Name(name))); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if s.Name("nothing") != "" {
		t.Error("a file that isn't there has a name")
	}
	if _, err := assets.New(nil, assets.Config{Also: also, Dir: "x"}); err == nil || !strings.Contains(err.Error(), "logo.svg") {
		t.Errorf("without a folder: got %v", err)
	}
	if _, err := assets.New(nil, assets.Config{Also: map[string][]byte{"../x.js": nil}}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a name outside: got %v", err)
	}
}

func TestRangesAndCodings(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 500)
	s := newSet(t, map[string]string{"a.txt": text}, assets.Config{})
	h, url := s.Handler(assets.HandlerConfig{}), urlOf(t, s, "a.txt")
	part := get(t, h, url, "Range", "bytes=10-19", "Accept-Encoding", "gzip")
	if got := body(t, part); part.StatusCode != http.StatusPartialContent || got != text[10:20] {
		t.Errorf("a range: got %s %q", part.Status, got)
	}
	for coding, want := range map[string]bool{"gzip": true, "GZIP": true, "br;q=1, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.00": false, "br": false, "": false, "xgzip": false} {
		if got := get(t, h, url, "Accept-Encoding", coding).Header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("Accept-Encoding %q: by gzip %v, want %v", coding, got, want)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", w.Code)
	}
}

// The files to which a style sheet refers have names with digests, so they lie beside the style sheet at any origin.
func TestStyleSheetsReferToNamesWithDigests(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"css/site.css": `@import"base.css";@import "base.css"; @import url('../x.css') screen; a{background:url(../img/a.svg#b)} b{background:url( "../img/a.svg?v=1" )}` +
			` c{background:url(data:image/png;base64,AAAA)} d{content:"url(none.svg)"} /* url(gone.svg) */ e{background:url(https://example.com/x.png)} f{src:url(/static/img/a.svg)} g{x:url(#local)} h{x:url(/elsewhere/y.png)}`,
		"css/base.css": "a{}", "x.css": "b{background:url(img/a.svg)}", "img/a.svg": "<svg/>",
	}
	s := newSet(t, texts, assets.Config{Path: "/static/"})
	got := body(t, get(t, s.Handler(assets.HandlerConfig{}), urlOf(t, s, "css/site.css")))
	svg := "a." + digest("<svg/>") + ".svg"
	base := path.Base(urlOf(t, s, "css/base.css"))
	x := path.Base(urlOf(t, s, "x.css"))
	want := `@import"` + base + `";@import "` + base + `"; @import url('../` + x + `') screen; a{background:url(../img/` + svg + `#b)} b{background:url( "../img/` + svg + `?v=1" )}` +
		` c{background:url(data:image/png;base64,AAAA)} d{content:"url(none.svg)"} /* url(gone.svg) */ e{background:url(https://example.com/x.png)} f{src:url(../img/` + svg + `)} g{x:url(#local)} h{x:url(/elsewhere/y.png)}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Hidden files, such as secrets and those of editors and version control, are for no browser.
func TestHiddenFilesAreNotServed(t *testing.T) {
	t.Parallel()
	s := newSet(t, map[string]string{"a.js": "x", ".env": "S3cret", ".git/config": "S3cret", "img/.logo.svg.swp": "S3cret"}, assets.Config{Path: "/static/"})
	if got := s.Names(); len(got) != 1 || got[0] != s.Name("a.js") {
		t.Errorf("got %v, want a.js alone", got)
	}
	for _, name := range []string{".env", ".git/config", "img/.logo.svg.swp"} {
		if resp := get(t, s.Handler(assets.HandlerConfig{}), "/static/"+name); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %s", name, resp.Status)
		}
	}
}

// A link to a file is served as the file, within the limit of a file. Other links are refused by their names.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int64{"small.js": 3, "big.js": 16<<20 + 1} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{"small.js": "", "big.js": "more than 16 MiB", ".": `"link.js" is no file`, "nothing.js": `"link.js" is no file`} {
		folder := t.TempDir()
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(folder, "link.js")); err != nil {
			t.Skip(err) // the machine has no links
		}
		_, err := assets.New(os.DirFS(folder), assets.Config{})
		if want == "" && err != nil || want != "" && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("a link to %s: got %v, want %q", target, err, want)
		}
	}
}

// A folder that can't be served rightly is refused when the program starts, by an error that says what to do.
func TestBadFoldersAndSettings(t *testing.T) {
	t.Parallel()
	good := map[string]string{"a.js": "x"}
	for want, x := range map[string]struct {
		texts map[string]string
		cfg   assets.Config
	}{
		"refers to":              {map[string]string{"a.css": "b{background:url(no.svg)}"}, assets.Config{}},
		"isn't in the folder":    {map[string]string{"a.css": "@import '../b.css';"}, assets.Config{}},
		"import each other":      {map[string]string{"a.css": "@import 'b.css';", "b.css": "@import 'a.css';"}, assets.Config{}},
		"has a digest":           {map[string]string{"a.0123456789abcdef.js": "x"}, assets.Config{}},
		"letters and digits":     {map[string]string{"ä b.js": "x"}, assets.Config{}},
		"there is no file":       {map[string]string{}, assets.Config{}},
		"Path \"static\"":        {good, assets.Config{Path: "static"}},
		"Path \"/a b/\"":         {good, assets.Config{Path: "/a b/"}},
		"Dir \"/x\"":             {good, assets.Config{Dir: "/x"}},
		"Base: want a URL":       {good, assets.Config{Base: "cdn.example/"}},
		"ends with a slash":      {good, assets.Config{Base: "https://cdn.example/web"}},
		"file does not exist":    {good, assets.Config{Dir: "nothing"}},
		"without a query":        {good, assets.Config{Base: "https://cdn.example/web/?sig=S3cret"}},
		"begins with https":      {good, assets.Config{Base: "ftp://cdn.example/web/"}},
		"such as /assets/":       {good, assets.Config{Path: "/a?b/"}},
		"without a slash at its": {good, assets.Config{Dir: "x/"}},
	} {
		_, err := assets.New(folder(x.texts), x.cfg)
		if want == "has a digest" {
			want = "had a digest"
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(fmt.Sprint(err), "S3cret") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := assets.New(nil, assets.Config{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("without files: got %v", err)
	}
	for _, path := range []string{"/", "/static/", "/a/b-c_d.e~1/"} {
		newSet(t, good, assets.Config{Path: path})
	}
	for _, path := range []string{"//cdn.example/", "/a//b/", "/../", "/a/./", "/a%20b/", `/a"b/`, `/\cdn.example/`, "/ä/", "/{x}/", "/a"} {
		if _, err := assets.New(folder(good), assets.Config{Path: path}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Path %s: got %v", path, err)
		}
	}
}

// A store that is away fails the requests for other versions' files alone, for a while.
func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newSet(t, map[string]string{"a.js": "x"}, assets.Config{})
	h := s.Handler(assets.HandlerConfig{Store: store})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if resp := get(t, h, urlOf(t, s, "a.js")); resp.StatusCode != http.StatusOK {
		t.Errorf("a file of its own: got %s", resp.Status)
	}
	resp := get(t, h, "/assets/b.0123456789abcdef.js")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a file of another version: got %s, %v", resp.Status, resp.Header)
	}
	if err := s.Publish(context.Background(), store); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("publish: got %v", err)
	}
}
