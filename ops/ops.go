package ops

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/login"
	"github.com/millrace-go/millrace/storage"
)

// Login says who may come in:
//
//	Tokens   string            // the file of tokens; "" for none
//	Header   string            // in which a proxy names the person, such as X-Forwarded-User; "" for none
//	Proxies  []netip.Prefix    // that may forward requests, and whose Header is believed; see [ParseProxies]
//	Hosts    []string          // names of the door beside this machine's own; with a port if it isn't 80 or 443
//	Insecure bool              // other machines may come without TLS and without a proxy
//	Link     func(path string) // shows a link that works once, by its path; used without Tokens and Header
//	Operator string            // the name of who comes in by a link; defaults to operator
//	Logger   *slog.Logger
//	Flag     string            // stands before the names of these settings in texts, as in -ops-tokens
type Login = login.Config

// ParseProxies reads the addresses of proxies, and ranges of addresses, with commas between them.
func ParseProxies(text string) ([]netip.Prefix, error) { return login.ParseProxies(text) }

// ParseHosts reads the names of hosts, with commas between them.
func ParseHosts(text string) []string { return login.ParseHosts(text) }

// NewToken makes a token of a person with a role: viewer, operator or admin. line is what the file of tokens has of it.
func NewToken(name, role string) (token, line string, err error) { return login.NewToken(name, role) }

// A Config says what the pages are of.
type Config struct {
	Desk   *act.Desk    // where the acts are done; the handler looks
	Path   string       // under which the handler is served; defaults to /ops
	Login  Login        // who may come in
	Logger *slog.Logger // defaults to none
}

//go:embed html static
var files embed.FS

// Pages are the handler of the pages, and what goes on behind them.
type Pages struct {
	http.Handler
	driver *bulk.Driver
}

// Run does the acts on many messages that people begin at the pages, and those whose processes have died, until ctx
// ends. Without Run such an act waits for another process. Run asks the store nothing while no such act goes on.
func (p *Pages) Run(ctx context.Context) error {
	p.driver.Run(ctx)
	return nil
}

// A server serves the pages.
type server struct {
	base   string
	bulk   *bulk.Driver
	reads  *reads
	table  table
	pages  *template.Template
	static *assets.Set // the files that browsers keep
	log    *slog.Logger
	lines  seldom.Lines // of log
	paces  paces
}

// New returns the pages. Its error says which setting is wrong.
func New(cfg Config) (*Pages, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Path == "" {
		cfg.Path = "/ops"
	}
	base := strings.TrimSuffix(cfg.Path, "/")
	own, err := static(base+"/", cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	cfg.Login.Logger = cfg.Logger
	door, err := login.New(cfg.Login)
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	door.Dress(own.Name("style.css"), own.Name("icon.svg"))
	desk, driver := *cfg.Desk, &bulk.Driver{Channels: cfg.Desk.Channels, Logger: cfg.Logger}
	desk.Wake = driver.Wake
	s := &server{base: base, bulk: driver, log: cfg.Logger, reads: newReads(&desk), static: own}
	s.table = slices.DeleteFunc(acts.All(), func(a *act.Act) bool { return !a.OnPages() })
	if s.pages, err = template.New("").Funcs(s.funcs()).ParseFS(files, "html/*.html"); err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+s.base+"/{$}", s.overview)
	kept := own.Handler(assets.HandlerConfig{})
	for _, name := range own.Names() {
		mux.Handle("GET "+s.base+"/"+name, kept)
	}
	mux.HandleFunc("GET "+s.base+"/find", s.search)
	mux.HandleFunc("GET "+s.base+"/{noun}", s.noun)
	mux.HandleFunc("GET "+s.base+"/{noun}/{thing...}", s.thing)
	mux.HandleFunc("GET "+s.base+"/do/{noun}/{verb}", s.form)
	mux.HandleFunc("POST "+s.base+"/do/{noun}/{verb}", s.do)
	mux.HandleFunc("GET "+s.base+"/do/{noun}", s.form)
	mux.HandleFunc("POST "+s.base+"/do/{noun}", s.do)
	return &Pages{door.Guard(s.base, known(mux, s)), driver}, nil
}

// wantsJSON reports that a program asks.
func wantsJSON(r *http.Request) bool { return login.IsProgram(r) }

// fill sets the fields of a request from the values of a query or of a form. An empty value is an empty field of a
// form, so it says nothing. A form has the values of a field that may be given several times in the lines of a text.
func fill(r *act.Request, values url.Values) error {
	lines := url.Values{}
	for name, texts := range values {
		if f := r.Field(name); f != nil && f.Many {
			texts = strings.Split(strings.Join(texts, "\n"), "\n")
			for i := range texts {
				texts[i] = strings.TrimSpace(texts[i])
			}
		}
		lines[name] = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	}
	return fillWith(r, lines)
}

// actID is the name under which a form has the ID of its act.
const actID = "act-id"

// fillWith sets the fields of a request from values as they are. It refuses a name that the request doesn't know: the
// value of a filter whose name is misspelt must not be taken for no filter.
func fillWith(r *act.Request, values url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name != actID && name != cameFrom && r.Field(name) == nil {
			return unknownName(name, r.Act.Name())
		}
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		texts := values[f.Name]
		if !f.Many && len(texts) > 1 {
			return act.Usage("%s: want one value", f.Name)
		}
		for _, text := range texts {
			if err := f.Set(text); err != nil {
				return act.Usage("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

func unknownName(name, by string) error {
	return act.Usage("%s isn't known to %s, so nothing was done", act.Word(name), by)
}

// ready fills in a request, within the bounds of the pages. key names the request: by its act and the fields that it
// knows, so nothing else makes another request of it.
func ready(q *act.Request, values url.Values) (key string, err error) {
	return readyBy(fill, q, values)
}

// readyBy is ready with another way to fill in a request.
func readyBy(fill func(*act.Request, url.Values) error, q *act.Request, values url.Values) (key string, err error) {
	if err := cmp.Or(fill(q, values), bound(q, values)); err != nil {
		return "", err
	}
	known := url.Values{}
	for _, f := range q.Fields {
		if texts := values[f.Name]; len(texts) > 0 {
			known[f.Name] = texts
		}
	}
	return q.Act.Name() + "?" + known.Encode(), nil
}

// read does a request that only reads, or tells what was read just now.
func (s *server) read(ctx context.Context, q *act.Request, values url.Values) (*told, error) {
	key, err := ready(q, values)
	if err != nil {
		return nil, surfaceOf(s.reads.desk).Error(q, err)
	}
	t, err := s.reads.read(ctx, key, q)
	return t, surfaceOf(s.reads.desk).Error(q, err)
}

// statusOf is the status for an error of an act.
func statusOf(err error) int {
	var bad *act.UsageError
	var none *act.NothingError
	switch {
	case err == nil, errors.Is(err, act.ErrWrong): // an act that has found what it looks for
		return http.StatusOK
	case errors.As(err, &bad), errors.Is(err, storage.ErrInvalid):
		return http.StatusBadRequest
	case errors.As(err, &none), errors.Is(err, storage.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}

// refuse answers an error to a program.
func refuse(w http.ResponseWriter, status int, text string) {
	problemOf(w, problem{Status: status, Detail: text})
}

// turnAway answers that something isn't shown or done, and why.
func (s *server) turnAway(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	if wantsJSON(r) {
		refuse(w, status, text)
		return
	}
	p := listPage{view: s.view(r, title, r.PathValue("noun"))}
	p.Error = text
	s.write(w, r, status, "list.html", p)
}

// A problem is a problem document (RFC 9457). An act that fails in its midst has told what it did before.
type problem struct {
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	Results []any    `json:"results,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

func problemOf(w http.ResponseWriter, p problem) {
	status := p.Status
	p.Title = http.StatusText(status)
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// write writes a page.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		s.lines.Log(r, s.log, slog.LevelError, "a page of operators can't be made", "", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, "the page can't be made; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(plain(b.String()))) // the client may have gone
}

// A view is what every page has.
type view struct {
	Title string
	Noun  string // whose page it is
	Root  string // the way to the first page, relative
	Who   login.Person
	Nav   navigation
	At    time.Time
	Error string // what could not be done or read

	Nothing string // why nothing is there
	Told    *told
	Next    string // where it goes on; "" for its end
	Live    bool   // the page may be fetched again and again

	Sought string // what somebody looks for
}

// rootOf is the way from a page to the first page.
func rootOf(r *http.Request, base string) string {
	below := strings.TrimPrefix(r.URL.EscapedPath(), base+"/")
	return "./" + strings.Repeat("../", strings.Count(below, "/"))
}

func (s *server) view(r *http.Request, title, noun string) view {
	return view{Title: title, Noun: noun, Root: rootOf(r, s.base), Who: login.Of(r), Nav: newNavigation(s.table.nouns(), noun), At: time.Now()}
}

// show takes what a read has told, or why it failed.
func (v *view) show(t *told, err error) {
	if v.Told = t; t != nil {
		v.At = t.At
	}
	var none *act.NothingError
	switch {
	case errors.As(err, &none):
		v.Nothing = err.Error()
	case err != nil:
		v.Error = err.Error()
	}
}
