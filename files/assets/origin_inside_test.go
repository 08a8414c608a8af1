package assets

import (
	"bytes"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

// An elsewhere is another origin, whose faults the test sets.
type elsewhere struct {
	*httptest.Server
	asked   atomic.Int64
	missing sync.Map    // names that are answered with 404
	closed  atomic.Bool // connections are cut
	hidden  atomic.Bool // no other site's scripts may read the files
	wrong   atomic.Bool // the type is wrong
	short   atomic.Bool // the files end too early
	moved   atomic.Bool // requests are led to yet another place
}

func newElsewhere(t *testing.T, set func() *Set) *elsewhere {
	e := &elsewhere{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		name := strings.TrimPrefix(r.URL.Path, "/web/")
		f := set().served[name]
		if _, gone := e.missing.Load(name); gone || f == nil {
			http.NotFound(w, r)
			return
		}
		if e.closed.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", f.kind)
		if e.wrong.Load() {
			w.Header().Set("Content-Type", "text/plain")
		}
		if !e.hidden.Load() {
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}
		if e.moved.Load() {
			http.Redirect(w, r, "/web/moved/"+name, http.StatusFound)
			return
		}
		if e.short.Load() {
			_, _ = w.Write(f.body[1:])
			return
		}
		_, _ = w.Write(f.body)
	}))
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(e.Close)
	return e
}

type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// eventually asks for a page's URL until it is as wanted. Each URL starts a look at the other origin.
func eventually(t *testing.T, s *Set, before string) {
	t.Helper()
	until(t, func() bool {
		got, err := s.URL("a.js")
		return err == nil && strings.HasPrefix(got, before)
	})
}

// Law A2: a page names another origin only while that has all files of this version, and lets pages use them.
func TestLawAPageNamesOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	var s *Set
	there := newElsewhere(t, func() *Set { return s })
	files := fstest.MapFS{}
	for _, name := range []string{"a.js", "b.css", "c.svg", "d.txt"} {
		files[name] = &fstest.MapFile{Data: []byte(name)}
	}
	log := &journal{}
	base := there.URL + "/web/"
	set, err := New(files, Config{Path: "/static/", Base: base, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s = set
	s.origin.pause = 0
	last := s.files["d.txt"].name
	there.missing.Store(last, true)
	until(t, func() bool { _, _ = s.URL("a.js"); return strings.Contains(log.String(), "lacks some") })
	if got, _ := s.URL("a.js"); !strings.HasPrefix(got, "/static/") {
		t.Errorf("a file is missing there, and pages name %s", got)
	}
	if !strings.Contains(log.String(), last) || !strings.Contains(log.String(), "404") {
		t.Errorf("the log doesn't say what is missing: %s", log)
	}
	there.missing.Delete(last)
	eventually(t, s, base)
	if html, err := s.element("a.js", s.place, `<script src="`, `></script>`); err != nil || !strings.Contains(string(html), ` crossorigin="anonymous"`) || !strings.Contains(string(html), `src="`+template.HTMLEscapeString(base)) {
		t.Errorf("got %s, %v", html, err)
	}
	for name, fault := range map[string]*atomic.Bool{"connections are cut": &there.closed, "no other site may read": &there.hidden, "the type is wrong": &there.wrong,
		"files end too early": &there.short, "requests are led elsewhere": &there.moved} {
		fault.Store(true)
		t.Log(name)
		eventually(t, s, "/static/")
		fault.Store(false)
		eventually(t, s, base)
	}
	there.missing.Store(s.files["b.css"].name, true)
	eventually(t, s, "/static/")
	if want := fmt.Sprintf("'self' %s", there.URL); s.Sources() != want {
		t.Errorf("got sources %q, want %q", s.Sources(), want)
	}
}

// Law A5: a module imports others by plain names, for which a page has no digest. So a module never comes from another
// origin, where whoever can write could answer for such a name.
func TestLawModulesComeFromTheProgram(t *testing.T) {
	t.Parallel()
	var s *Set
	there := newElsewhere(t, func() *Set { return s })
	files := fstest.MapFS{"a.js": {Data: []byte("a()")}, "app.js": {Data: []byte(`import "./lib.js"`)}, "lib.js": {Data: []byte("l()")}}
	set, err := New(files, Config{Path: "/static/", Base: there.URL + "/web/", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s = set
	s.origin.pause = 0
	eventually(t, s, there.URL)
	var page bytes.Buffer
	if err := template.Must(template.New("").Funcs(s.Funcs()).Parse(`{{module "app.js"}}{{script "a.js"}}`)).Execute(&page, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<script type="module" src="/static/app.`, `<script defer src="` + there.URL} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("got %s\nwant in it %s", page.String(), want)
		}
	}
}

// Pages cost no request elsewhere: one look in a while is enough for all of them.
func TestPagesAskNobody(t *testing.T) {
	t.Parallel()
	var s *Set
	there := newElsewhere(t, func() *Set { return s })
	set, err := New(fstest.MapFS{"a.js": {Data: []byte("a")}, "b.js": {Data: []byte("b")}}, Config{Base: there.URL + "/web/"})
	if err != nil {
		t.Fatal(err)
	}
	s = set
	s.origin.pause = time.Hour
	eventually(t, s, there.URL)
	for range 1000 {
		if _, err := s.URL("a.js"); err != nil {
			t.Fatal(err)
		}
	}
	if n := there.asked.Load(); n != 2 {
		t.Errorf("%d requests, want one for each file", n)
	}
}

func until(t *testing.T, so func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !so() {
		select {
		case <-late:
			t.Fatal("waited for a minute")
		case <-time.After(time.Millisecond):
		}
	}
}

// The functions are as fast as a page needs them: no allocation but the URL.
func BenchmarkURL(b *testing.B) {
	s, err := New(fstest.MapFS{"a.js": {Data: []byte("a")}}, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.URL("a.js"); err != nil {
			b.Fatal(err)
		}
	}
}
