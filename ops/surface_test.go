package ops_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
)

// pathOf is the address of an act.
func pathOf(a *act.Act) string { return "do/" + strings.ReplaceAll(a.Name(), " ", "/") }

// required are the fields that a request of an act must have.
func required(a *act.Act) (names []string) {
	for _, f := range a.Request().Fields {
		if f.Place != "" && !f.Optional {
			names = append(names, f.Name)
		}
	}
	return names
}

// toldIn are the error and the notes of an answer to a program.
func toldIn(t *testing.T, body string) string {
	t.Helper()
	var p struct {
		Title, Detail string
		Notes         []string
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, body)
	}
	return p.Detail + "\n" + strings.Join(p.Notes, "\n")
}

// errorsOn are the errors on a page.
func errorsOn(body string) (all string) {
	for _, m := range regexp.MustCompile(`<p class="error"[^>]*>([^<]*)</p>`).FindAllStringSubmatch(body, -1) {
		all += html.UnescapeString(m[1]) + "\n"
	}
	return all
}

// Law: an act that must be told what it is about is refused by name where nothing tells it, and nothing is done: by a
// program, by a form, and by a form whose list has blank lines alone.
func TestLawWhatIsMissingIsRefused(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	n := 0
	for _, a := range acts.All() {
		names := required(a)
		if !a.OnPages() || len(names) == 0 || !a.DoneAt(&act.Desk{}) {
			continue
		}
		n++
		blank := url.Values{"dry-run": nil}
		members := map[string]any{}
		for _, f := range a.Request().Fields {
			switch {
			case f.Name == "why" || f.Name == "yes":
				members[f.Name] = "true"
				blank.Set(f.Name, "true")
			case f.Place != "" && f.Many:
				blank.Set(f.Name, " \r\n\r\n ")
			case f.Place != "":
				blank.Set(f.Name, "")
			}
		}
		blank.Del("dry-run")
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		told := toldIn(t, x.want(t, 400, ask{method: "POST", path: pathOf(a), role: act.Admin, json: string(body), header: program}))
		shown := x.want(t, 400, ask{method: "POST", path: pathOf(a), role: act.Admin, form: blank}, `<form class="act"`)
		for _, name := range names {
			for what, text := range map[string]string{"a program": told, "a person": errorsOn(shown)} {
				if !strings.Contains(text, `"`+name+`" is missing`) {
					t.Errorf("%s without %s, to %s: got %q", a.Name(), name, what, text)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d acts have such a field", n)
	}
	if log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}); strings.Contains(log, `"act"`) {
		t.Errorf("an act was begun: %s", log)
	}
}

// aCommand is a command line within a text, or what stands in quotes.
var aCommand = regexp.MustCompile(`millrace [^;,.:\n]*|"[^"\n]*"`)

// Law: what the pages and the API tell of an error names fields by their words, and never by flags of a command line.
func TestLawErrorsSpeakTheWordsOfTheirSurface(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	check := func(a *act.Act, sent any, text string) {
		if m := regexp.MustCompile(`--[a-z][^ ]*`).FindString(aCommand.ReplaceAllString(text, "")); m != "" {
			t.Errorf("%s with %v: got %s in\n%s", a.Name(), sent, m, text)
		}
	}
	n := 0
	for _, a := range acts.All() {
		if !a.OnPages() {
			continue
		}
		var forms []url.Values
		add := func(change func(url.Values)) {
			form := filled(a)
			change(form)
			forms = append(forms, form)
		}
		add(func(url.Values) {})
		add(func(f url.Values) { f.Del("why") })
		add(func(f url.Values) { f.Del("yes") })
		forms = append(forms, url.Values{}, url.Values{"why": {"x"}}, url.Values{"yes": {"true"}, "dry-run": {"true"}})
		for _, f := range a.Request().Fields {
			add(func(form url.Values) { form.Del(f.Name) })
			add(func(form url.Values) { form.Set(f.Name, "\x1bx") })
			forms = append(forms, url.Values{f.Name: {filled(a).Get(f.Name)}, "why": {"x"}, "yes": {"true"}})
		}
		for _, form := range forms {
			for name := range form {
				if a.Request().Field(name) == nil {
					form.Del(name)
				}
			}
			if a.Request().Field("wait") != nil {
				form.Set("wait", "1ms")
			}
			header := map[string]string{"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
			_, body := x.ask(t, ask{method: "POST", path: pathOf(a), role: act.Admin, form: form, header: header})
			check(a, form, toldIn(t, body))
			_, page := x.ask(t, ask{method: "POST", path: pathOf(a), role: act.Admin, form: form})
			check(a, form, errorsOn(page))
			n++
		}
	}
	if n < 400 {
		t.Errorf("only %d requests were sent", n)
	}
	x.want(t, 400, ask{method: "POST", path: "do/queues/pause", role: act.Operator, json: `{"queues": ["mails"]}`, header: program}, `add \"why\": it tells others the reason`)
	x.want(t, 400, ask{method: "POST", path: "do/queues/pause", role: act.Operator, json: `{"queues": ["mails"], "why": "x", "until": "2026-01-02 15:04"}`, header: program}, `"until: `)
}

// An answer that nothing is done is a problem document to a program, with what the address takes where the method is
// wrong, and a page to a person.
func TestRefusalsAreProblems(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, c := range []struct {
		ask    ask
		status int
		allow  string
	}{
		{ask{method: "DELETE", path: "queues"}, 405, "GET, HEAD"},
		{ask{method: "POST", path: "queues", json: `{}`}, 405, "GET, HEAD"},
		{ask{method: "PUT", path: "do/queues/pause", json: `{}`}, 405, "GET, HEAD, POST"},
		{ask{method: "POST", path: "do/queues/pause", header: map[string]string{"Content-Type": "text/plain"}, form: url.Values{"a": {"b"}}}, 415, ""},
		{ask{method: "POST", path: "do/queues/pause", header: map[string]string{"Content-Type": "a b c"}, form: url.Values{"a": {"b"}}}, 415, ""},
		{ask{method: "POST", path: "do/queues/pause", json: `{"why": "` + strings.Repeat("x", 21<<20) + `"}`}, 413, ""},
		{ask{method: "POST", path: "do/nothing/here", json: `{}`}, 404, ""},
	} {
		a := c.ask
		a.role = act.Admin
		people, _, _ := x.askAll(t, withHeader(a, "Accept", "text/html"))
		status, body, header := x.askAll(t, withHeader(a, "Accept", "application/json"))
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || status != c.status || people != c.status || p.Status != status || p.Detail == "" || p.Title != http.StatusText(status) ||
			header.Get("Content-Type") != "application/problem+json" || header.Get("Allow") != c.allow || (header.Get("Accept-Post") != "") != (status == 415) {
			t.Errorf("%s %s: got %d, %d to people, %v, %s (%v)", a.method, a.path, status, people, header, body, err)
		}
	}
	_, _, header := x.askAll(t, ask{method: "POST", path: "do/queues/pause", json: `{`, role: act.Admin}) // without Accept
	if header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a program that sends JSON: got %v", header)
	}
}

func withHeader(a ask, name, value string) ask {
	header := map[string]string{name: value}
	for n, v := range a.header {
		header[n] = v
	}
	a.header = header
	return a
}

// A member that occurs twice is refused, also within the content of a message.
func TestMembersOccurOnce(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, c := range [][2]string{
		{"queues/pause", `{"queues": ["accounts"], "queues": ["totals"], "why": "x"}`},
		{"send", `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 1, "amount": 2}}`},
		{"send", `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 1}, "kind": "test.add.v1"}`},
	} {
		x.want(t, 400, ask{method: "POST", path: "do/" + c[0], role: act.Operator, json: c[1], header: program}, "occurs twice")
	}
}

// An edit without a body is refused by the name of the field.
func TestAnEditNeedsABody(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	list := x.want(t, 200, ask{path: "poison?queue=mails", role: act.Viewer, header: program})
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(list)[1]
	for data, want := range map[string]string{"": `want the new body: "data"`, " \r\n": "data: it is empty", "{": "data: "} {
		body := x.want(t, 400, ask{method: "POST", path: "do/poison/edit", role: act.Admin, form: url.Values{"id": {id}, "why": {"x"}, "data": {data}}}, `<form class="act"`)
		if got := errorsOn(body); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	}
	for _, data := range []string{`""`, `" "`, `null`, `[]`} {
		x.want(t, 400, ask{method: "POST", path: "do/poison/edit", role: act.Admin, json: `{"id": "` + id + `", "why": "x", "data": ` + data + `}`, header: program}, `\"data\" is`)
	}
	worldtest.Want(t, "poison mails", len(x.Poisoned("mails")), poisonedMails)
}

// A refusal names the role that the act needs, and the role that the person has.
func TestARefusalNamesTheRoles(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, c := range []struct {
		path, needs string
		role        act.Role
		form        url.Values
	}{
		{"queues/purge", "admin", act.Operator, nil},
		{"queues/pause", "operator", act.Viewer, nil},
		{"views/show", "operator", act.Viewer, url.Values{"view": {"totals"}, "key": {"ada"}, "reveal": {"true"}, "why": {"x"}}},
	} {
		want := "it needs the role " + c.needs + ", and yours is " + c.role.String() + "."
		for _, header := range []map[string]string{nil, program} {
			x.want(t, 403, ask{method: "POST", path: "do/" + c.path, role: c.role, form: c.form, header: header}, want)
		}
	}
}

// Law: the pages offer no act that they refuse for want of a program's code.
func TestLawWhatIsOfferedCanBeDone(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	n := 0
	for _, a := range acts.All() {
		if !a.OnPages() {
			continue
		}
		_, list := x.ask(t, ask{path: a.Noun, role: act.Admin})
		_, thing := x.ask(t, ask{path: a.Noun + "/accounts", role: act.Admin})
		offered := strings.Contains(list+thing, pathOf(a)+`"`) || strings.Contains(list+thing, pathOf(a)+`?`)
		_, done := x.ask(t, ask{method: "POST", path: pathOf(a), role: act.Admin, form: filled(a), header: map[string]string{"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}})
		refused := strings.Contains(done, "own binary")
		if refused {
			n++
			x.want(t, 404, ask{path: pathOf(a), role: act.Admin}, "own binary")
		}
		if offered && refused || refused != !a.DoneAt(&act.Desk{}) {
			t.Errorf("%s: offered %v, refused %v: %s", a.Name(), offered, refused, done)
		}
	}
	if n != 2 {
		t.Errorf("%d acts were refused, want views rebuild and values try", n)
	}
}
