package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/internal/login"
)

// maxForm bounds the body of a form: the content of a message, and some fields.
const maxForm = 20 << 20

// A formPage is the form of an act, with what it would do or has done.
type formPage struct {
	view
	About, More string
	Fields      []formField
	Fewer       []formField // few need them
	ID          string      // of the act
	Sure        bool        // a dry run may be asked for
	Destroys    bool        // it is shown first, and done after a second click
	Shown       bool        // what it would do stands above
	Done        bool
	Outcome     string // what has become of it, in a word
	Back        []link // where a person goes from there
	From        string // the page from which the person has come
	Reads       bool   // it changes nothing
	Command     string // the command line that does the same
}

// A formField is a field of a form.
type formField struct {
	Name, Label, About, Value, Kind string
	Needed, Many, Placed, Given     bool
	Kept                            bool // it has characters that people can't see, so nobody edits it
	Words                           []string
	Root                            string
}

// labels are how a form names other fields.
var labels = act.Surface{Word: func(f act.Field) string { return title(f.Name) }}

// formFields are the fields of a request, but those of its confirmation.
func formFields(q *act.Request, values url.Values, root string) (all []formField) {
	for _, f := range q.Fields {
		if f.Name == "yes" || f.Name == "dry-run" || f.Name == "by" {
			continue
		}
		x := formField{Name: f.Name, Label: f.Name, About: labels.Text(q, strings.ReplaceAll(f.About, "`", "")), Value: strings.Join(values[f.Name], "\n"), Many: f.Many, Words: f.Plain, Root: root}
		x.Placed, x.Given = f.Place != "", len(values[f.Name]) > 0 && values.Get(f.Name) != ""
		x.Needed = f.Place != "" && !f.Optional || f.Name == "why" && (q.Act.Why == act.Must || values.Has("reveal"))
		switch f.Kind {
		case act.KindFlag:
			x.Kind = "checkbox"
		case act.KindNumber:
			x.Kind = "number"
		case act.KindContent: // the text is typed here, and there is no file
			x.Kind, x.About = "content", strings.TrimSuffix(strings.TrimPrefix(x.About, "the FILE with "), "; - for the standard input")
		default:
			x.Kind = "text"
		}
		if x.Value == "" && x.Kind != "checkbox" {
			x.Value = f.Default
		}
		if x.Kind == "content" {
			x.Value = plainJSON(x.Value)
		}
		if len(x.Words) > 0 && x.Value != "" && !slices.Contains(x.Words, x.Value) { // a choice has what is chosen
			x.Words = append(slices.Clone(x.Words), x.Value)
		}
		x.Kept = strings.ContainsFunc(x.Value, isHidden)
		all = append(all, x)
	}
	return all
}

// asked returns the act that a request names, if its person may do it.
func (s *server) asked(w http.ResponseWriter, r *http.Request) *act.Act {
	a := s.table.find(r.PathValue("noun"), r.PathValue("verb"))
	if a == nil {
		s.nowhere(w, r)
		return nil
	}
	if !login.Of(r).May(a.Role) {
		s.forbid(w, r, a, a.Role)
		return nil
	}
	goOnWith(s.bulk, a.Noun)
	return a
}

// forbid answers somebody whose role doesn't allow an act, which needs a role.
func (s *server) forbid(w http.ResponseWriter, r *http.Request, a *act.Act, needs act.Role) {
	s.turnAway(w, r, http.StatusForbidden, title(a.Name()), fmt.Sprintf("You may not do this: it needs the role %s, and yours is %s.", needs, login.Of(r).Role))
}

// notHere answers somebody who asks for an act that the pages don't offer.
const notHere = "This can't be done here: it needs the code of a program. Use the command line of the program's own binary."

// form shows the form of an act. That of an act that only reads shows its result, too.
func (s *server) form(w http.ResponseWriter, r *http.Request) {
	a := s.asked(w, r)
	if a == nil {
		return
	}
	if !a.DoneAt(s.reads.desk) {
		s.turnAway(w, r, http.StatusNotFound, titleOf(a), notHere)
		return
	}
	p := s.formOf(r, a, r.URL.Query())
	status := http.StatusOK
	for name := range r.URL.Query() {
		if a.Request().Field(name) == nil {
			err := unknownName(name, a.Name())
			if wantsJSON(r) {
				s.answer(w, nil, err)
				return
			}
			p.Error, status = err.Error(), statusOf(err)
		}
	}
	if a.Reveals && r.URL.Query().Get("reveal") == "true" && !wantsJSON(r) { // the form asks for the reason first
		s.write(w, r, status, "form.html", p)
		return
	}
	if status == http.StatusOK && a.Role == act.Viewer && (len(r.URL.Query()) > 0 || needs(a.Request()) == 0 || wantsJSON(r)) {
		t, err := s.read(r.Context(), a.Request(), r.URL.Query())
		if wantsJSON(r) {
			s.answer(w, t, err)
			return
		}
		p.show(t, err)
		if on := t.next(a, r.URL.Query()); on != nil {
			p.Next = "?" + on.Encode()
		}
		status = statusOf(err)
	}
	s.write(w, r, status, "form.html", p)
}

func (s *server) formOf(r *http.Request, a *act.Act, values url.Values) formPage {
	p := formPage{view: s.view(r, titleFor(a, values), a.Noun), About: a.About, More: a.More, ID: audit.NewID(), Sure: a.Sure != act.Not, Destroys: a.Sure == act.Must, Reads: a.Role == act.Viewer && !a.Reveals}
	q := a.Request()
	if len(namesOf(a, values)) > 0 && slices.ContainsFunc(q.Fields, selects) { // it is about one thing, and selects none
		q.Fields = slices.DeleteFunc(q.Fields, func(f act.Field) bool { return selects(f) && values.Get(f.Name) == "" })
		p.Sure = p.Destroys
	}
	p.Fields, p.Fewer = apart(formFields(q, values, p.Root))
	p.From = s.from(r, values.Get(cameFrom))
	if a.Reveals && values.Get("reveal") == "true" {
		p.Title = "Reveal the content"
	}
	return p
}

func selects(f act.Field) bool { return f.Selects }

// firstFields is how many fields of a form are always shown.
const firstFields = 6

// apart takes the last fields of a long form apart, but those that somebody must fill in or has filled in.
func apart(all []formField) (first, fewer []formField) {
	for i, f := range all {
		if i < firstFields || f.Needed || f.Placed || f.Given || f.Name == "why" {
			first = append(first, f)
		} else {
			fewer = append(fewer, f)
		}
	}
	return first, fewer
}

// do does an act.
func (s *server) do(w http.ResponseWriter, r *http.Request) {
	a := s.asked(w, r)
	if a == nil {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	values, set, err := valuesOf(r)
	if err != nil {
		s.turnAway(w, r, statusOfBody(err, w.Header()), titleOf(a), err.Error())
		return
	}
	id := cmp.Or(r.Header.Get("Idempotency-Key"), values.Get(actID), audit.NewID())
	values.Del("by") // the login says who it is
	q := a.Request()
	t := newTold(s.reads.desk, q)
	key := ""
	if err = audit.CheckID(id); err == nil {
		key, err = readyBy(set, q, values)
	}
	switch {
	case err == nil && !login.Of(r).May(q.Role()):
		s.forbid(w, r, a, q.Role())
		return
	case !a.DoneAt(s.reads.desk):
		s.turnAway(w, r, http.StatusNotFound, titleOf(a), notHere)
		return
	case err != nil:
	case a.Role == act.Viewer && !q.Noted():
		if t, err = s.reads.read(r.Context(), key, q); t == nil {
			t = newTold(s.reads.desk, q)
		}
	default:
		err = s.perform(r, q, id, t)
	}
	err = surfaceOf(s.reads.desk).Error(q, err)
	if wantsJSON(r) {
		s.answer(w, t, err)
		return
	}
	for name, text := range t.confirmed { // what is done after this is what was shown
		values.Set(name, text)
	}
	if err == nil && s.revealed(w, r, a, values, t) {
		return
	}
	p := s.formOf(r, a, values)
	p.ID, p.Command = id, q.Line(s.reads.desk.Command)
	p.show(t, err)
	if p.ends(q, t, err) {
		p.Back = s.backs(a, values, p.Root, p.From)
	}
	s.write(w, r, statusOf(err), "form.html", p)
}

// ends says what has become of the act of a form, and reports that the act has ended well.
func (p *formPage) ends(q *act.Request, t *told, err error) bool {
	switch {
	case err != nil && !errors.Is(err, act.ErrWrong):
		if statusOf(err) != http.StatusServiceUnavailable && !errors.Is(err, act.ErrUnderWay) { // this act has ended, and what is sent next is another one
			p.ID = audit.NewID()
		}
	case q.DryRun() && q.Act.Role != act.Viewer:
		p.Shown = true
	default:
		p.Done, p.Outcome = true, outcomes[t.Outcome]
	}
	return p.Done
}

// outcomes are what a page says of an act that has ended well.
var outcomes = map[act.Outcome]string{act.IsDone: "Done", act.IsBegun: "Begun", act.IsAsked: "Asked", act.IsNothing: "Nothing was done"}

// actWithin bounds an act of a page or a program. An act that takes longer may be sent again under its ID.
const actWithin = 10 * time.Minute

// perform does a request for the person who asks. Somebody who doesn't wait for the answer doesn't stop the act.
func (s *server) perform(r *http.Request, q *act.Request, id string, t *told) error {
	desk, err := s.reads.current(r.Context())
	if err != nil {
		return err
	}
	who := login.Of(r)
	c := act.NewCall(desk, who.Name, t)
	c.ID, c.From = id, who.From
	defer s.reads.forget() // whoever looks next sees what was done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actWithin)
	defer cancel()
	return q.Do(ctx, c)
}

// statusOfBody is the status for a body that can't be read. It says in the header which types are taken.
func statusOfBody(err error, header http.Header) int {
	switch large := (*http.MaxBytesError)(nil); {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errKind):
		header.Set("Accept-Post", "application/json, "+formKind)
		return http.StatusUnsupportedMediaType
	}
	return http.StatusBadRequest
}

// formKind is the content type of a form.
const formKind = "application/x-www-form-urlencoded"

// errKind is the error of a body of a type that no act takes.
var errKind = errors.New("want a body of the type application/json, or a form")

// valuesOf reads a form, or a JSON object with texts, numbers, true and false, and lists of them. set sets the fields
// of a request from the values.
func valuesOf(r *http.Request) (values url.Values, set func(*act.Request, url.Values) error, err error) {
	kind := ""
	if named := r.Header.Get("Content-Type"); named != "" {
		if kind, _, err = mime.ParseMediaType(named); err != nil {
			return nil, nil, fmt.Errorf("%w: the Content-Type of this request can't be read", errKind)
		}
	}
	if (kind == "application/json" || wantsJSON(r)) && r.URL.RawQuery != "" { // that of a form has filled it in
		return nil, nil, errors.New("a request that does an act has no query: the members of its body are the fields of the act")
	}
	switch kind {
	case "application/json":
		values, err = membersOf(r.Body)
		return values, fillWith, err
	case formKind:
		if err := r.ParseForm(); err != nil {
			return nil, nil, fmt.Errorf("this form can't be read: %w", err)
		}
		return r.PostForm, fill, nil
	}
	if n, err := io.ReadFull(r.Body, make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, nil, errKind
	}
	return url.Values{}, fill, nil
}
