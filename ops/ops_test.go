package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/login"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A site is the pages of a store, with a token for each role.
type site struct {
	*worldtest.World
	handler http.Handler
	tokens  map[act.Role]string
	file    string // of the tokens
}

// newSite serves the pages of a store, whose program has published what it knows.
func newSite(t testing.TB, s *storage.Store) *site {
	t.Helper()
	x := &site{World: worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals}}), tokens: map[act.Role]string{}}
	x.Decide()
	x.Project()
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "shop", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	x.serve(t, s)
	return x
}

// serve makes the pages of a store, and a token for each role.
func (x *site) serve(t testing.TB, s *storage.Store) {
	t.Helper()
	path, lines := filepath.Join(t.TempDir(), "tokens"), ""
	for name, role := range map[string]act.Role{"viewer": act.Viewer, "operator": act.Operator, "admin": act.Admin} {
		token, line, err := login.NewToken(name, name)
		if err != nil {
			t.Fatal(err)
		}
		x.tokens[role], lines = token, lines+line+"\n"
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	x.file = path
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	if x.handler, err = ops.New(ops.Config{Desk: desk, Login: ops.Login{Tokens: path}}); err != nil {
		t.Fatal(err)
	}
}

// An ask is a request to a site.
type ask struct {
	method, path string
	role         act.Role
	form         url.Values
	json         string
	header       map[string]string
}

func (x *site) ask(t testing.TB, a ask) (status int, body string) {
	t.Helper()
	status, body, _ = x.askAll(t, a)
	return status, body
}

func (x *site) askAll(t testing.TB, a ask) (status int, body string, header http.Header) {
	t.Helper()
	if a.method == "" {
		a.method = http.MethodGet
	}
	sent, kind := a.form.Encode(), "application/x-www-form-urlencoded"
	if a.json != "" {
		sent, kind = a.json, "application/json"
	}
	r := httptest.NewRequestWithContext(t.Context(), a.method, "/ops/"+a.path, strings.NewReader(sent))
	r.Host = "localhost"
	r.Header.Set("Content-Type", kind)
	if token := x.tokens[a.role]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	x.handler.ServeHTTP(w, r)
	got, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(got), w.Result().Header
}

func (x *site) want(t testing.TB, status int, a ask, parts ...string) string {
	t.Helper()
	got, body := x.ask(t, a)
	if got != status {
		t.Errorf("%s %s: got status %d, want %d\n%s", a.method, a.path, got, status, body)
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("%s %s: got\n%s\nwant %q", a.method, a.path, body, part)
		}
	}
	return body
}

var program = map[string]string{"Accept": "application/json"}

// Law: each act is refused to whom its role forbids it, whatever the method and the origin, and pages don't offer it.
// An act that changes something is done by POST alone, from no other origin.
func TestLawRolesDecide(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, a := range acts.All() {
		path := "do/" + strings.ReplaceAll(a.Name(), " ", "/")
		if !a.OnPages() {
			x.want(t, 404, ask{path: path, role: act.Admin})
			continue
		}
		for role := act.Role(0); role <= act.Admin; role++ {
			for method, header := range map[string]map[string]string{
				"GET":                      nil,
				"POST":                     nil,
				"POST from another origin": {"Origin": "https://evil.example"},
				"POST from another site":   {"Sec-Fetch-Site": "cross-site"},
				"GET from another site":    {"Sec-Fetch-Site": "cross-site"},
				"DELETE":                   nil,
			} {
				method, from, _ := strings.Cut(method, " ")
				code, body := x.ask(t, ask{method: method, path: path, role: role, form: url.Values{}, header: header})
				var want []int
				switch {
				case from != "" && method == "POST":
					want = []int{403}
				case role == 0:
					want = []int{401}
				case method == "DELETE":
					want = []int{405}
				case role < a.Role:
					want = []int{403}
				case method == "GET":
					want = []int{200, 400, 404} // nothing is there yet
				default:
					want = []int{200, 400, 404, 409} // most acts want something
				}
				if !slices.Contains(want, code) {
					t.Errorf("%s of %s by role %d %s: got status %d, want %v\n%s", method, a.Name(), role, from, code, want, body)
				}
			}
			if role < a.Role || a.Reveals && role == act.Viewer { // also with all that the act takes
				x.want(t, map[bool]int{true: 401, false: 403}[role == 0], ask{method: "POST", path: path, role: role, form: filled(a)})
			}
			if code, body := x.ask(t, ask{path: a.Noun, role: role}); code == 200 && a.Role != act.Viewer && strings.Contains(body, `"./do/`+strings.ReplaceAll(a.Name(), " ", "/")+`"`) != (role >= a.Role && a.DoneAt(&act.Desk{})) {
				t.Errorf("the page of %s for role %d: %s is offered: %v", a.Noun, role, a.Name(), role < a.Role)
			}
		}
	}
	if log := x.want(t, 200, ask{path: "audit?limit=1000", role: act.Viewer, header: program}); strings.Contains(log, `"who":"viewer"`) {
		t.Errorf("a viewer has begun an act: %s", log)
	}
}

// filled is a form of an act with a value in each field that the act takes.
func filled(a *act.Act) url.Values {
	form := url.Values{}
	for _, f := range a.Request().Fields {
		text := map[act.Kind]string{act.KindText: "accounts", act.KindFlag: "true", act.KindNumber: "1", act.KindDuration: "10s", act.KindMoment: "2026-01-02 15:04", act.KindContent: "{}"}[f.Kind]
		if len(f.Plain) > 0 {
			text = f.Plain[0]
		}
		if f.Name != "dry-run" && a.Request().Field(f.Name).Set(text) == nil { // some want a text of their own
			form.Set(f.Name, text)
		}
	}
	return form
}

// Law: a form that is sent twice has one effect, also by a program, and another act under its ID is refused.
func TestLawAFormIsDoneOnce(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	body := x.want(t, 200, ask{path: "do/queues/pause?queues=accounts", role: act.Operator}, "Keep queues from being consumed", ">accounts</textarea>")
	id := regexp.MustCompile(`name="act-id" value="([^"]+)"`).FindStringSubmatch(body)
	if id == nil {
		t.Fatalf("the form has no ID:\n%s", body)
	}
	form := url.Values{"act-id": {id[1]}, "queues": {"accounts\r\ntotals"}, "why": {"no budget"}, "for": {""}}
	x.want(t, 200, ask{method: "POST", path: "do/queues/pause", role: act.Operator, form: form}, "Queue &#34;accounts&#34; is paused.", "Done.")
	x.want(t, 200, ask{method: "POST", path: "do/queues/pause", role: act.Operator, form: form}, "This was done before")
	form.Set("queues", "totals")
	x.want(t, 409, ask{method: "POST", path: "do/queues/pause", role: act.Operator, form: form}, "belongs to another act")

	key := map[string]string{"Accept": "application/json", "Idempotency-Key": audit.NewID()}
	resume := ask{method: "POST", path: "do/queues/resume", role: act.Operator, json: `{"queues": ["accounts"], "why": "budget"}`, header: key}
	x.want(t, 200, resume, `{"results":[{"queue":"accounts","result":"resumed","paused":null}]`)
	x.want(t, 200, resume, `{"results":[{"queue":"accounts","result":"resumed","paused":null}]`, `This was done before, `, `: Queue \"accounts\" is consumed again."`)
	x.want(t, 400, ask{method: "POST", path: "do/queues/resume", role: act.Operator, json: `{"queues": ["accounts"]}`, header: map[string]string{"Accept": "application/json", "Idempotency-Key": "1"}}, "UUID of version 7")
	log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}, `"who":"operator"`, `"act":"queues resume"`, `"from":"192.0.2.1"`, `"why":"budget"`)
	if strings.Count(log, `"act":"queues`) != 2 || strings.Contains(log, `"said"`) {
		t.Errorf("got %s", log)
	}
}

// Law: the login says who it is. Nobody is somebody else by a form.
func TestLawTheLoginSaysWho(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	x.want(t, 200, ask{method: "POST", path: "do/queues/pause", role: act.Operator, form: url.Values{"queues": {"accounts"}, "why": {"x"}, "by": {"ada"}}})
	if log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}, `"who":"operator"`); strings.Contains(log, "ada") {
		t.Errorf("got %s", log)
	}
}

// Law: what destroys is shown first, and done after a second click alone.
func TestLawWhatDestroysIsShownFirst(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	first := x.want(t, 200, ask{path: "do/queues/purge?queue=accounts", role: act.Admin}, "Show what it would do")
	if strings.Contains(first, `name="yes"`) {
		t.Errorf("the first form can do it:\n%s", first)
	}
	form := url.Values{"queue": {"accounts"}, "why": {"a test"}}
	x.want(t, 400, ask{method: "POST", path: "do/queues/purge", role: act.Admin, form: form})
	form.Set("dry-run", "true")
	x.want(t, 200, ask{method: "POST", path: "do/queues/purge", role: act.Admin, form: form}, "Would delete 1 message", "Nothing is done yet", `name="yes"`)
	worldtest.Want(t, "messages after what was shown", worldtest.Queued(t, s, "accounts"), 1)
	form.Del("dry-run")
	form.Set("yes", "true")
	x.want(t, 200, ask{method: "POST", path: "do/queues/purge", role: act.Admin, form: form}, "Deleted 1 message", "Done.")
	worldtest.Want(t, "messages after it was done", worldtest.Queued(t, s, "accounts"), 0)
}

// Law: a page says how old its numbers are, and nobody looking asks nothing.
func TestLawAPageSaysHowOldItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, _ storagetest.Op, do func() error) error {
			calls.Add(1)
			return do()
		})
		x := newSite(t, s)
		x.drive(t)
		at := func(path string) string {
			body := x.want(t, 200, ask{path: path, role: act.Viewer})
			m := regexp.MustCompile(`<p class="now">Read ([^<]*)</p>`).FindStringSubmatch(body)
			if m == nil {
				t.Fatalf("%s doesn't say how old it is:\n%s", path, body)
			}
			return m[1]
		}
		for _, path := range []string{"queues", "queues/accounts"} {
			was, read := at(path), time.Now().UTC().Format(time.TimeOnly)
			time.Sleep(readFor / 2)
			if again := at(path); again != was || !strings.Contains(was, read) {
				t.Errorf("%s: read at %s: got %s, and %s a second later", path, read, was, again)
			}
			time.Sleep(readFor)
			if later := at(path); later == was {
				t.Errorf("%s: read again: got %s", path, later)
			}
		}
		synctest.Wait()
		before := calls.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := calls.Load() - before; n != 0 {
			t.Errorf("nobody looks, and the store got %d calls", n)
		}
	})
}

// Law: a store that is read slowly is shown as it was up to half a minute ago, while it is read again. After an act
// nobody sees what was read before it.
func TestLawSlowReadsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "stats" {
				time.Sleep(time.Second) // in a bubble
			}
			return do()
		})
		x := newSite(t, s)
		ready := func() (text string, took time.Duration) {
			began := time.Now()
			body := x.want(t, 200, ask{path: "queues?", role: act.Viewer, header: program})
			return regexp.MustCompile(`"queue":"accounts","ready":(\d+)`).FindStringSubmatch(body)[1], time.Since(began)
		}
		want := func(name, count string, waits bool) {
			t.Helper()
			got, took := ready()
			if got != count || (took >= time.Second) != waits {
				t.Errorf("%s: got %s ready, after %v", name, got, took)
			}
		}
		want("the first time", "0", true)
		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
		time.Sleep(readFor + time.Second)
		want("later", "0", false)
		synctest.Wait()
		time.Sleep(readFor + time.Second)
		want("once it was read again", "1", false)
		time.Sleep(time.Minute)
		want("after a long time", "1", true)
		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
		time.Sleep(readFor + time.Second)
		want("while it is read", "1", false)
		x.want(t, 200, ask{method: "POST", path: "do/queues/pause", role: act.Operator, form: url.Values{"queues": {"accounts"}, "why": {"x"}}})
		want("after an act", "2", true)
		time.Sleep(time.Second) // for the end of the read that the act has outdated
	})
}

const readFor = 2 * time.Second

// Law: all links are relative, so a proxy may serve the pages under any path.
func TestLawLinksAreRelative(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	for _, path := range []string{"", "queues", "queues/accounts", "poison", "do/queues/pause", "do/queues/pause?queues=accounts", "values", "audit", "nowhere", "nowhere/at/all"} {
		_, body := x.ask(t, ask{path: path, role: act.Admin})
		all := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1)
		if len(all) < 3 {
			t.Errorf("%s has %d links:\n%s", path, len(all), body)
		}
		at, err := url.Parse("https://proxy.example/team/tools/ops/" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			to, err := at.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil || !strings.HasPrefix(to.String(), "https://proxy.example/team/tools/ops/") || strings.HasPrefix(m[1], "/") {
				t.Errorf("%s: link %q leads to %v (%v)", path, m[1], to, err)
			}
		}
	}
}

// A page of a thing shows it, what waits there, and the acts on it. A thing that isn't there is a sentence.
func TestPagesOfThings(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5})
	x.want(t, 200, ask{path: "", role: act.Viewer}, "What is wrong", `<a href="./queues/accounts">accounts</a>`)
	x.want(t, 200, ask{path: "queues/accounts", role: act.Operator}, "<dt>Ready</dt><dd>1</dd>", "shop v1", "test.add.v1", `href="./../do/queues/pause?queues=accounts"`)
	x.want(t, 404, ask{path: "queues/nope", role: act.Viewer}, "unknown queue &#34;nope&#34;")
	x.want(t, 404, ask{path: "poison/nope", role: act.Viewer}, "no message &#34;nope&#34;")
}

// Law: content is in no answer until somebody says why they need to see it. Then the audit log says who has.
func TestLawContentIsRevealedWithAReason(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1, Note: "xyzzy"})
	x.RunUntilIdle(worker.Config{})
	worldtest.Send(x.World, worldtest.Add{To: "bob", Amount: 1, Note: "xyzzy"})
	w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[worldtest.Add](worldtest.Accounts))
	handlers.React(w.Registry, worldtest.Accounts, func(context.Context, worldtest.Add) error {
		return handlers.Poison("closed", errors.New("no cook for xyzzy"))
	})
	w.RunUntilIdle(worker.Config{})
	list := x.want(t, 200, ask{path: "poison", role: act.Viewer, header: program}, `"reason":"closed"`)
	var got struct {
		Results []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(list), &got); err != nil || len(got.Results) != 1 {
		t.Fatalf("got %s, %v", list, err)
	}
	id := got.Results[0].ID
	paths := []string{"", "queues/accounts", "poison/" + id, "values/accounts/ada", "values/accounts", "views/totals/ada", "audit"}
	for _, a := range acts.All() {
		with := url.Values{}
		for name, text := range map[string]string{"id": id, "kind": "accounts", "view": "totals", "key": "ada", "queue": "accounts"} {
			if a.Request().Field(name) != nil { // it would refuse another name, and tell nothing
				with.Set(name, text)
			}
		}
		paths = append(paths, a.Noun, "do/"+strings.ReplaceAll(a.Name(), " ", "/"), "do/"+strings.ReplaceAll(a.Name(), " ", "/")+"?"+with.Encode())
	}
	for _, path := range paths {
		for _, header := range []map[string]string{nil, program} {
			for _, more := range []string{"", "reveal=true", "reveal=true&why=x"} {
				at := path
				if more != "" {
					at += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + more
				}
				if _, body := x.ask(t, ask{path: at, role: act.Admin, header: header}); strings.Contains(body, "xyzzy") {
					t.Errorf("GET %s shows content:\n%s", at, body)
				}
			}
		}
	}
	x.want(t, 200, ask{path: "poison/" + id, role: act.Operator}, "text of ", "(#", `href="./../do/poison/retry?id=`, "&#34;note&#34;: &#34;text of 5&#34;", "reveal=true")
	reveal := url.Values{"id": {id}, "reveal": {"true"}}
	for why, status := range map[string]int{"": 400, "the customer asks": 200} {
		reveal.Set("why", why)
		for role, want := range map[act.Role]int{act.Viewer: 403, act.Operator: status} {
			body := x.want(t, want, ask{method: "POST", path: "do/poison/show", role: role, form: reveal})
			if strings.Contains(body, "xyzzy") != (want == 200) {
				t.Errorf("reason %q by role %d: got\n%s", why, role, body)
			}
		}
	}
	x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}, `"act":"poison show"`, `--reveal"`, `"why":"the customer asks"`, `"who":"operator"`)
	for what, form := range map[string]url.Values{"values": {"kind": {"accounts"}, "key": {"ada"}}, "views": {"view": {"totals"}, "key": {"ada"}}} {
		form.Set("reveal", "true")
		form.Set("why", "x")
		x.want(t, 200, ask{method: "POST", path: "do/" + what + "/show", role: act.Admin, form: form}, "&#34;count&#34;: 1")
	}
}
