package ops

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/login"
	"github.com/millrace-go/millrace/process"
)

// rowsOfPage is how many rows a page shows of a list that has no limit of its own.
const rowsOfPage = "100"

// mostGrouped is how many poison messages the page of poison messages groups by cause.
const mostGrouped = "500"

// A listPage is a list, with its filters and the acts of its noun.
type listPage struct {
	view
	Fields   []formField
	Filtered bool // some of them are given
	Acts     []link
	Choice   choice        // of the place that the list needs
	First    []section     // what people want to see before the list
	Drawn    template.HTML // a picture of what was told, in place of it
}

// A thingPage is all of one thing.
type thingPage struct {
	view
	Thing string
	Acts  []link
	More  []section     // what else is known of it
	Drawn template.HTML // its heading and how it stands, in place of what was told
	Steps template.HTML // a picture of it

	Revealed bool // it is shown with its content, once

	stream *process.Stream // of the page of an instance; nil where it can't be read
}

// A section is what another act tells of a thing.
type section struct {
	Name  string
	Told  *told
	Drawn template.HTML // a picture of it in place of what was told
	Error string
	Next  string // where it goes on; "" for its end
	Lost  bool   // the error is that the store didn't answer
}

// lost leaves out that the store didn't answer, where the page has said so before.
func (sec *section) lost() {
	if sec.Lost {
		sec.Error = "The store didn't answer for this either."
	}
}

// answer answers a program.
func (s *server) answer(w http.ResponseWriter, t *told, err error) {
	if status := statusOf(err); status != http.StatusOK {
		p := problem{Status: status, Detail: err.Error()}
		if t != nil {
			p.Results, p.Notes = t.Objects, t.notes()
		}
		problemOf(w, p)
		return
	}
	body, err := t.json()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the answer can't be made")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// noun shows the list of a noun.
func (s *server) noun(w http.ResponseWriter, r *http.Request) {
	noun := r.PathValue("noun")
	if len(s.table.of(noun)) == 0 {
		s.nowhere(w, r)
		return
	}
	goOnWith(s.bulk, noun)
	p := listPage{view: s.view(r, title(noun), noun)}
	status := http.StatusOK
	a := s.table.mainOf(noun)
	if wantsJSON(r) && a != nil {
		t, err := s.read(r.Context(), a.Request(), r.URL.Query())
		s.answer(w, t, err)
		return
	}
	c := choosing{noun: noun, root: p.Root, main: a, show: s.table.find(noun, "show"), desk: s.reads.current}
	if p.Choice = c.choice(r, nil); p.Choice.Of == "" && a != nil {
		status = s.list(r, a, &p, c)
	}
	if a != nil && a.Reveals && p.Choice.Of == "" && login.Of(r).May(act.Operator) {
		look := linkTo(a, p.Root, "reveal=true")
		look.Name, look.About = "reveal content", "with a reason, which the audit log keeps"
		p.Acts = append(p.Acts, look)
	}
	for _, x := range s.table.of(noun) {
		if x != a && offers(r, x, s.reads.desk) {
			p.Acts = append(p.Acts, linkTo(x, p.Root, shared(x, r.URL.Query()).Encode()))
		}
	}
	s.write(w, r, status, "list.html", p)
}

// paging are the fields that say which part of a list is shown, and nothing of what it is a list of.
var paging = []string{"limit", "after", "skip"}

// shared are the values of a list that an act takes, too: it then is about what the list shows.
func shared(a *act.Act, given url.Values) url.Values {
	with := url.Values{}
	for _, f := range a.Request().Fields {
		if texts := given[f.Name]; given.Get(f.Name) != "" && !slices.Contains(paging, f.Name) && f.Shown == nil {
			with[f.Name] = texts
		}
	}
	return with
}

// list fills in what an act lists.
func (s *server) list(r *http.Request, a *act.Act, p *listPage, c choosing) (status int) {
	q, values := a.Request(), r.URL.Query()
	if f := q.Field("limit"); f != nil && f.Default == "" && !values.Has(f.Name) {
		values.Set(f.Name, rowsOfPage)
	}
	t, err := s.read(r.Context(), q, values)
	if p.Choice = c.choice(r, err); p.Choice.Of != "" {
		return http.StatusOK
	}
	p.Live = true
	p.show(t, err)
	if on := t.next(a, r.URL.Query()); on != nil {
		p.Next = "?" + on.Encode()
	}
	p.Fields, p.Filtered = formFields(q, r.URL.Query(), p.Root), len(r.URL.Query()) > 0
	p.Fields = slices.DeleteFunc(p.Fields, func(f formField) bool { return a.Reveals && (f.Name == "reveal" || f.Name == "why") }) // a form alone reveals
	p.Drawn = t.chart()
	if a.Noun == "poison" && err == nil && !p.Filtered {
		p.First = append(p.First, s.sectionOf(r, "By cause", s.table.find("poison", "groups"), url.Values{"limit": {mostGrouped}}).dated())
	}
	if p.Nothing != "" { // an empty list is a list
		return http.StatusOK
	}
	return statusOf(err)
}

// offers reports that a page has an act for its viewer, and that the act can be done at its desk.
func offers(r *http.Request, a *act.Act, desk *act.Desk) bool {
	return login.Of(r).May(a.Role) && a.DoneAt(desk)
}

// thing shows all of one thing.
func (s *server) thing(w http.ResponseWriter, r *http.Request) {
	noun := r.PathValue("noun")
	goOnWith(s.bulk, noun)
	below := strings.TrimPrefix(r.URL.EscapedPath(), s.base+"/"+url.PathEscape(noun)+"/")
	var names []string
	for part := range strings.SplitSeq(below, "/") {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" {
			s.nowhere(w, r)
			return
		}
		names = append(names, name)
	}
	if way := s.reads.inPlan(noun, names, r); way != "" {
		w.Header().Set("Location", way) // relative: a proxy may serve the pages under any path
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	a := s.table.find(noun, "show")
	if a == nil || needs(a.Request()) > len(names) { // the documents of a collection, say
		a = s.table.mainOf(noun)
	}
	if a == nil {
		s.nowhere(w, r)
		return
	}
	p := thingPage{view: s.view(r, strings.Join(names, " · "), noun), Thing: strings.Join(names, "/")}
	q := a.Request()
	values := r.URL.Query()
	err := place(q, names, values)
	var t *told
	if err == nil {
		t, err = s.read(r.Context(), q, values)
	}
	if wantsJSON(r) {
		s.answer(w, t, err)
		return
	}
	p.Live = true
	p.show(t, err)
	if on := t.next(a, r.URL.Query()); on != nil {
		p.Next = "?" + on.Encode()
	}
	switch {
	case noun == "processes":
		err = p.draw(s.reads.desk.Command, login.Of(r).May(act.Operator), err)
	case a.Verb == "list" && len(names) > places(q):
		p.only(names[len(names)-1])
	}
	if statusOf(err) != http.StatusNotFound {
		p.Acts = s.actsOn(r, a, names, &p)
	}
	if err == nil {
		p.More = append(p.More, s.more(r, noun, names)...)
	}
	s.write(w, r, statusOf(err), "thing.html", p)
}

// revealIt is the name of the act that reveals the content of a thing.
const revealIt = "reveal the content"

// actsOn are the acts on the thing of a page that its viewer may do, and that the thing may take as it stands. The page
// itself is made by shown.
func (s *server) actsOn(r *http.Request, shown *act.Act, names []string, p *thingPage) (all []link) {
	offer := func(x *act.Act, name, about string, with url.Values) {
		if place(x.Request(), names, with) == nil {
			l := linkTo(x, p.Root, with.Encode())
			l.Name, l.About = cmp.Or(name, l.Name), cmp.Or(about, l.About)
			all = append(all, l)
		}
	}
	if shown.Reveals && login.Of(r).May(act.Operator) {
		with := url.Values{"reveal": {"true"}}
		maps.Copy(with, r.URL.Query())
		offer(shown, revealIt, "with a reason, which the audit log keeps", with)
	}
	for _, x := range s.table.of(shown.Noun) {
		if x == shown || x.Role == act.Viewer || !offers(r, x, s.reads.desk) || !p.takes(x) {
			continue
		}
		with := url.Values{}
		for name, texts := range r.URL.Query() { // such as the plan of a process
			if x.Request().Field(name) != nil {
				with[name] = texts
			}
		}
		p.fill(x, with)
		offer(x, "", "", with)
	}
	return all
}

// more tells what other acts know of a thing.
func (s *server) more(r *http.Request, noun string, names []string) (all []section) {
	type other struct{ title, noun, verb, field string }
	var others []other
	with := url.Values{}
	switch {
	case noun == "queues" && len(names) == 1:
		others = []other{{"Waiting messages", "queues", "peek", "queue"}, {"Poison messages", "poison", "list", "queue"}, {"The last 24 hours", "rates", "", "queue"}}
	case (noun == "values" || noun == "views") && len(names) == 2:
		others = []other{{"Record, and what stands beside it", "values", "about", "kind"}}
		with.Set("key", names[1])
	}
	for _, x := range others {
		with.Set(x.field, names[0])
		all = append(all, s.sectionOf(r, x.title, s.table.find(x.noun, x.verb), with))
	}
	return all
}

// sectionOf is what an act that only reads tells.
func (s *server) sectionOf(r *http.Request, title string, a *act.Act, with url.Values) section {
	sec := section{Name: title}
	var err error
	sec.Told, err = s.read(r.Context(), a.Request(), with)
	if sec.Drawn = sec.Told.chart(); err != nil {
		sec.Error, sec.Lost = err.Error(), statusOf(err) == http.StatusServiceUnavailable
	}
	if on := sec.Told.next(a, with); on != nil && a == s.table.mainOf(a.Noun) {
		sec.Next = rootOf(r, s.base) + a.Noun + "?" + on.Encode()
	} else if on != nil {
		sec.Next = linkTo(a, rootOf(r, s.base), on.Encode()).Path
	}
	return sec
}

// dated says in the name of a section when the store was read for it. A section is dated that is read seldom.
func (sec section) dated() section {
	if sec.Told != nil {
		sec.Name += ", at " + sec.Told.At.UTC().Format("15:04:05 UTC")
	}
	return sec
}

// goOnWith has somebody go on with acts on many messages whose processes have died, when a person looks at such acts.
func goOnWith(driver *bulk.Driver, noun string) {
	if noun == "bulk" {
		driver.Look()
	}
}

// only leaves the rows whose first cell is a name.
func (v *view) only(name string) {
	if v.Told == nil {
		return
	}
	own := told{Notes: v.Told.Notes, At: v.Told.At}
	for _, b := range v.Told.Blocks {
		if b.Head == nil {
			continue
		}
		one := *b
		one.Rows = slices.DeleteFunc(slices.Clone(b.Rows), func(row []cell) bool { return row[0].Text != name })
		own.Blocks = append(own.Blocks, &one)
	}
	v.Told = &own
}

// revealed shows an instance with its content: the page of the instance, as it is without. It reports false for what is
// no instance, and has shown nothing then.
func (s *server) revealed(w http.ResponseWriter, r *http.Request, a *act.Act, values url.Values, t *told) bool {
	if a.Name() != "processes show" {
		return false
	}
	id := values.Get("id")
	p := thingPage{view: s.view(r, id, a.Noun), Thing: id}
	p.show(t, nil)
	if err := p.draw(s.reads.desk.Command, login.Of(r).May(act.Operator), nil); err != nil || p.stream == nil {
		return false
	}
	p.Acts = s.actsOn(r, a, []string{id}, &p)
	p.Acts = slices.DeleteFunc(p.Acts, func(l link) bool { return l.Name == revealIt })
	for i, l := range p.Acts { // the address of this page has no plan
		p.Acts[i].Path = l.Path + "&plan=" + url.QueryEscape(p.stream.Plan)
	}
	p.Revealed = true
	s.write(w, r, http.StatusOK, "thing.html", p)
	return true
}

func (s *server) nowhere(w http.ResponseWriter, r *http.Request) {
	s.turnAway(w, r, http.StatusNotFound, "Not found", "There is no such page.")
}

// known answers what no page and no act takes: as a problem document to a program, and as a page to a person.
func known(mux *http.ServeMux, s *server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		said := noHandler{header: http.Header{}}
		refusal.ServeHTTP(&said, r)
		if said.status != http.StatusMethodNotAllowed {
			s.nowhere(w, r)
			return
		}
		allow := said.header.Get("Allow")
		w.Header().Set("Allow", allow)
		s.turnAway(w, r, said.status, "Not done", fmt.Sprintf("This address takes %s, and not %s.", allow, act.Word(r.Method)))
	})
}

// A noHandler is what the mux answers where it has no handler, without the text.
type noHandler struct {
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (x *noHandler) Header() http.Header { return x.header }

// WriteHeader implements [http.ResponseWriter].
func (x *noHandler) WriteHeader(status int) { x.status = status }

// Write implements [http.ResponseWriter].
func (x *noHandler) Write(p []byte) (int, error) { return len(p), nil }

// A told block of a page, as the templates see it.
type toldView struct {
	Told *told
	view view
}

// funcs are what the templates call.
func (s *server) funcs() template.FuncMap {
	cellsOf := func(b toldView) *cells {
		return &cells{href: func(l *act.Link) string { return s.table.href(b.view.Root, l) }}
	}
	said := func(root, text string) template.HTML {
		return prose{table: s.table, command: s.reads.desk.Command, root: root}.html(text)
	}
	return template.FuncMap{
		"mended":  func(b toldView, f doctor.Finding) mended { return s.table.mends(b.view, s.reads.desk.Command, f) },
		"said":    func(b toldView, text string) template.HTML { return said(b.view.Root, text) },
		"lines":   func(text string) template.HTML { return said("", text) },
		"cell":    func(b toldView, c cell) template.HTML { return cellsOf(b).cell(c) },
		"rows":    func(b toldView, rows [][]lookCell) template.HTML { return cellsOf(b).rows(rows) },
		"clock":   func(x any) string { return viewOf(x).At.UTC().Format("2006-01-02 15:04:05 UTC") },
		"of":      func(x any, t *told, noun string) toldView { v := viewOf(x); v.Noun = noun; return toldView{t, v} },
		"unseen":  unseen,
		"title":   title,
		"heading": heading,
		"look":    newLook,
		"file":    s.static.Name,
	}
}

// viewOf is what a page has as every page.
func viewOf(x any) view {
	v, _ := x.(interface{ frame() view })
	return v.frame()
}

func (v view) frame() view { return v }
