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
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/internal/login"
	"github.com/millrace-go/millrace/process"
)

// rowsOfPage is how many rows a page shows of a list that has no limit of its own.
const rowsOfPage = "100"

// A listPage is a list, with its filters and the acts of its noun.
type listPage struct {
	view
	Fields   []formField
	Filtered bool // some of them are given
	Acts     []link
	Next     string // where the list goes on; "" for its end
}

// A link is an act that a page offers.
type link struct{ Name, About, Path string }

// A thingPage is all of one thing.
type thingPage struct {
	view
	Thing string
	Acts  []link
	More  []section     // what else is known of it
	Drawn template.HTML // a picture of it in place of what was told
}

// A section is what another act tells of a thing.
type section struct {
	Name  string
	Told  *told
	Error string
}

// An overviewPage is the first page.
type overviewPage struct {
	view
	Queues *told
}

// overview shows what is wrong, worst first, and the queues.
func (s *server) overview(w http.ResponseWriter, r *http.Request) {
	s.bulk.Look()
	found, err := s.reads.read(r.Context(), "doctor", s.find("doctor", "").Request())
	if wantsJSON(r) {
		s.answer(w, found, err)
		return
	}
	p := overviewPage{view: s.view(r, "Overview", "")}
	p.Live = true
	p.show(found, nil)
	if code := statusOf(err); err != nil && code != http.StatusNotFound {
		p.Error = err.Error()
	} else if err != nil {
		p.Error = "No program has published what it does in this store: start a worker of package host."
	}
	queues, err := s.reads.read(r.Context(), "queues", s.find("queues", "list").Request())
	if p.Queues = queues; err != nil && p.Error == "" {
		p.Error = err.Error()
	}
	s.write(w, r, http.StatusOK, "overview.html", p)
}

// answer answers a program.
func (s *server) answer(w http.ResponseWriter, t *told, err error) {
	if err != nil {
		s.problem(w, statusOf(err), err.Error())
		return
	}
	body, err := t.json()
	if err != nil {
		s.problem(w, http.StatusInternalServerError, "the answer can't be made")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// mainOf returns the act that a noun's page shows: its list, or else the first one that only reads and needs nothing.
func (s *server) mainOf(noun string) *act.Act {
	if a := s.find(noun, "list"); a != nil {
		return a
	}
	for _, a := range s.of(noun) {
		if a.Role == act.Viewer && needs(a.Request()) == 0 {
			return a
		}
	}
	return nil
}

// needs counts the fields with a place that a request must have.
func needs(r *act.Request) (n int) {
	for _, f := range r.Fields {
		if f.Place != "" && !f.Optional {
			n++
		}
	}
	return n
}

// noun shows the list of a noun.
func (s *server) noun(w http.ResponseWriter, r *http.Request) {
	noun := r.PathValue("noun")
	if len(s.of(noun)) == 0 {
		s.nowhere(w, r)
		return
	}
	if noun == "bulk" {
		s.bulk.Look()
	}
	p := listPage{view: s.view(r, noun, noun)}
	status := http.StatusOK
	a := s.mainOf(noun)
	if a != nil {
		q := a.Request()
		err := fill(q, r.URL.Query())
		if f := q.Field("limit"); err == nil && f != nil && f.Default == "" && !r.URL.Query().Has(f.Name) && !wantsJSON(r) {
			err = f.Set(rowsOfPage)
		}
		var t *told
		if err == nil {
			t, err = s.reads.read(r.Context(), fmt.Sprint(a.Name(), wantsJSON(r), "?", r.URL.RawQuery), q)
		}
		if wantsJSON(r) {
			s.answer(w, t, err)
			return
		}
		p.Live, status = true, statusOf(err)
		p.show(t, err)
		if t != nil && t.More != nil {
			on := r.URL.Query()
			on.Set(t.More.Field, t.More.Text)
			p.Next = "?" + on.Encode()
		}
		p.Fields, p.Filtered = formFields(q, r.URL.Query(), p.Root), len(r.URL.Query()) > 0
	}
	if a != nil && a.Reveals && login.Of(r).May(act.Operator) {
		p.Acts = append(p.Acts, link{"look for content", "with a reason, which the audit log keeps", p.Root + "do/" + strings.ReplaceAll(a.Name(), " ", "/") + "?reveal=true"})
	}
	for _, x := range s.of(noun) {
		if x != a && login.Of(r).May(x.Role) {
			p.Acts = append(p.Acts, link{cmp.Or(x.Verb, x.Noun), x.About, p.Root + "do/" + strings.ReplaceAll(x.Name(), " ", "/")})
		}
	}
	s.write(w, r, status, "list.html", p)
}

// thing shows all of one thing.
func (s *server) thing(w http.ResponseWriter, r *http.Request) {
	noun := r.PathValue("noun")
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
	a := s.find(noun, "show")
	if a == nil {
		a = s.mainOf(noun)
	}
	if a == nil {
		s.nowhere(w, r)
		return
	}
	p := thingPage{view: s.view(r, strings.Join(names, " · "), noun), Thing: strings.Join(names, "/")}
	q := a.Request()
	values := r.URL.Query()
	err := place(q, names, values)
	if err == nil {
		err = fill(q, values)
	}
	var t *told
	if err == nil {
		t, err = s.reads.read(r.Context(), a.Name()+" "+below+"?"+r.URL.RawQuery, q)
	}
	if wantsJSON(r) {
		s.answer(w, t, err)
		return
	}
	p.Live = true
	p.show(t, err)
	switch {
	case noun == "processes":
		err = p.draw(s.reads.desk.Command, err)
	case noun == "queues":
		p.queue(names[0])
	case a.Verb == "list":
		p.only(names[0])
	}
	p.More, p.Acts = s.more(r, noun, names), s.actsOn(r, a, names, p.Root)
	s.write(w, r, statusOf(err), "thing.html", p)
}

// actsOn are the acts on a thing that its viewer may do. The page itself is made by shown.
func (s *server) actsOn(r *http.Request, shown *act.Act, names []string, root string) (all []link) {
	offer := func(x *act.Act, name, about string, with url.Values) {
		if place(x.Request(), names, with) == nil {
			all = append(all, link{name, about, root + "do/" + strings.ReplaceAll(x.Name(), " ", "/") + "?" + with.Encode()})
		}
	}
	if shown.Reveals && login.Of(r).May(act.Operator) {
		with := url.Values{"reveal": {"true"}}
		maps.Copy(with, r.URL.Query())
		offer(shown, "reveal the content", "with a reason, which the audit log keeps", with)
	}
	for _, x := range s.of(shown.Noun) {
		if x == shown || x.Role == act.Viewer || !login.Of(r).May(x.Role) {
			continue
		}
		with := url.Values{}
		for name, texts := range r.URL.Query() { // such as the plan of a process
			if x.Request().Field(name) != nil {
				with[name] = texts
			}
		}
		offer(x, cmp.Or(x.Verb, x.Noun), x.About, with)
	}
	return all
}

// more tells what other acts know of a thing.
func (s *server) more(r *http.Request, noun string, names []string) (all []section) {
	if noun != "queues" || len(names) != 1 {
		return nil
	}
	for _, x := range []struct{ title, noun, verb, field string }{{"Waiting messages", "queues", "peek", "queue"}, {"Poison messages", "poison", "list", "queue"}} {
		q := s.find(x.noun, x.verb).Request()
		err := q.Field(x.field).Set(names[0])
		sec := section{Name: x.title}
		if err == nil {
			sec.Told, err = s.reads.read(r.Context(), x.noun+" "+x.verb+" "+names[0], q)
		}
		if err != nil {
			sec.Error = err.Error()
		}
		all = append(all, sec)
	}
	return all
}

// place names a thing in the fields of a request that have a place. An act whose list has no place gets the name as its
// prefix.
func place(q *act.Request, names []string, values url.Values) error {
	n := 0
	for _, f := range q.Fields {
		if f.Place != "" && n < len(names) {
			values.Set(f.Name, names[n])
			n++
		}
	}
	switch {
	case n == len(names):
		return nil
	case n == 0 && len(names) == 1 && q.Field("id") != nil:
		values.Set("id", names[0])
		return nil
	case n == 0 && q.Field("prefix") != nil && q.Act.Role == act.Viewer:
		values.Set("prefix", names[0])
		return nil
	case n == 0 && q.Act.Role == act.Viewer: // a list without filters
		return nil
	}
	return act.Usage("%s takes no such name", q.Act.Name())
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

// draw makes the picture of an instance of a plan.
func (p *thingPage) draw(command string, err error) error {
	if p.Told == nil || err != nil {
		return err
	}
	for _, x := range p.Told.Objects {
		if stream, ok := x.(*process.Stream); ok {
			if p.Drawn, err = processes.HTML(stream, p.At, command, func(id string) string {
				return p.Root + "processes/" + url.PathEscape(id) + "?plan=" + url.QueryEscape(stream.Plan)
			}); err != nil {
				return err
			}
			p.Told = nil
		}
	}
	return nil
}

// queue leaves what is known of one queue, as a thing.
func (v *view) queue(name string) {
	if v.Told == nil {
		return
	}
	own := told{Notes: v.Told.Notes, At: v.Told.At}
	for _, x := range v.Told.Objects {
		if q, ok := x.(acts.Queue); ok && q.Queue == name {
			own.Blocks = append(own.Blocks, &block{Parts: queueParts(q)})
		}
	}
	if v.Told = &own; len(own.Blocks) == 0 && v.Error == "" {
		v.Error = "No queue of this name is known."
	}
}

// queueParts tells all numbers of a queue, and why nobody consumes it.
func queueParts(q acts.Queue) []part {
	number := func(n *int64) cell {
		if n == nil {
			return newCell(nil)
		}
		return newCell(*n)
	}
	var consumers []string
	for _, c := range q.Consumers {
		consumers = append(consumers, c.Program+" "+c.Version)
	}
	all := []part{
		{"Ready", number(q.Ready)}, {"In flight", number(q.InFlight)}, {"Delayed", number(q.Delayed)}, {"Poison", newCell(q.Poison)},
		{"Consumed by", newCell(strings.Join(consumers, ", "))},
	}
	if q.Oldest != nil {
		all = append(all, part{"Oldest ready", newCell(time.Duration(*q.Oldest * float64(time.Second)))})
	}
	if p := q.Paused; p != nil {
		all = append(all, part{"Paused", newCell(p.Since)}, part{"Paused by", newCell(p.By)}, part{"Why", newCell(p.Why)})
		if p.Until != nil {
			all = append(all, part{"Until", newCell(act.Clock(*p.Until))})
		}
	}
	if q.WaitsFrom != nil {
		all = append(all, part{"Waits", newCell(fmt.Sprintf("its workers leave it out from level %d on", *q.WaitsFrom))})
	}
	return all
}

func (s *server) nowhere(w http.ResponseWriter, r *http.Request) {
	if wantsJSON(r) {
		s.problem(w, http.StatusNotFound, "There is no such page.")
		return
	}
	p := listPage{view: s.view(r, "Not found", "")}
	p.Error = "There is no such page."
	s.write(w, r, http.StatusNotFound, "list.html", p)
}

// thingIn is the name under which a link of a list has the thing of its row.
const thingIn = "thing"

// A told block of a page, as the templates see it.
type toldView struct {
	Told *told
	view view
}

// funcs are what the templates call.
func (s *server) funcs() template.FuncMap {
	return template.FuncMap{
		"clock": func(x any) string { return viewOf(x).At.UTC().Format("2006-01-02 15:04:05 UTC") },
		"of":    func(x any, t *told, noun string) toldView { v := viewOf(x); v.Noun = noun; return toldView{t, v} },
		"at": func(b toldView, c cell) cell {
			if c.Link != nil {
				c.Href = s.href(b.view.Root, c.Link)
			}
			return c
		},
		"title": func(s string) string {
			if s == "" {
				return ""
			}
			return strings.ToUpper(s[:1]) + s[1:]
		},
	}
}

// viewOf is what a page has as every page.
func viewOf(x any) view {
	v, _ := x.(interface{ frame() view })
	return v.frame()
}

func (v view) frame() view { return v }

// href is the way from a page to what a link names.
func (s *server) href(root string, l *act.Link) string {
	noun, verb, _ := strings.Cut(l.Act, " ")
	a := s.find(noun, verb)
	if a == nil {
		return ""
	}
	path, query := root+noun, url.Values{}
	for name, text := range l.With {
		if text != "" {
			query.Set(name, text)
		}
	}
	switch {
	case query.Has(thingIn):
		path += "/" + url.PathEscape(query.Get(thingIn))
		query.Del(thingIn)
	case verb == "show":
		for _, f := range a.Request().Fields {
			if f.Place != "" && query.Has(f.Name) {
				path += "/" + url.PathEscape(query.Get(f.Name))
				query.Del(f.Name)
			}
		}
	case a == s.mainOf(noun): // the list, with filters
	default:
		path = strings.TrimSuffix(root+"do/"+noun+"/"+verb, "/")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}
