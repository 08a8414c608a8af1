package login

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// nextField is the page that a form asks for.
var nextField = regexp.MustCompile(`name="next" value="([^"]*)"`)

// formNext is what a page's form sends as the page to which the login leads.
func formNext(t *testing.T, r *http.Response) string {
	t.Helper()
	m := nextField.FindStringSubmatch(body(t, r))
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

// Law: a login leads to the page that was asked for, also after a wrong token, and also by a link.
func TestLawALoginLeadsBack(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{}, "ada:admin")
	for path, want := range map[string]string{
		"/ops/queues/orders?x=y&z=%2F": "queues/orders?x=y&z=%2F", "/ops/values/a/b%2Fc%20d": "values/a/b%2Fc%20d", "/ops/?limit=3": "?limit=3", "/ops/": "",
		"/ops/login": "", "/ops/login?next=queues/a": "queues/a", "/ops/values/accounts/login": "values/accounts/login",
	} {
		next := formNext(t, visit{path: path}.at(d))
		again := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {"wrong"}, "next": {next}}}.at(d)
		if after := formNext(t, again); next != want || after != want {
			t.Errorf("%s: the form has %q, and after a wrong token %q; want %q", path, next, after, want)
		}
		in := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}, "next": {next}}}.at(d)
		if way := in.Header.Get("Location"); in.StatusCode != 303 || way != "./"+want {
			t.Errorf("%s: the login leads to %q, want %q", path, way, "./"+want)
		}
	}

	var links []string
	d, err := New(Config{Link: func(way string) { links = append(links, way) }})
	if err != nil {
		t.Fatal(err)
	}
	asked := formNext(t, visit{path: "/ops/queues/orders?x=y"}.at(d))
	d.links.made = d.links.made.Add(-linkAgain)
	want(t, "another link", visit{method: "POST", path: "/ops/login", form: url.Values{"another": {"yes"}, "next": {asked}}}.at(d), 200, "A new link")
	if len(links) != 2 {
		t.Fatalf("got links %q", links)
	}
	at, err := url.Parse(links[1])
	if err != nil {
		t.Fatal(err)
	}
	next := formNext(t, visit{path: "/ops" + links[1]}.at(d))
	in := visit{method: "POST", path: "/ops/login", form: url.Values{"once": {at.Query().Get("once")}, "next": {next}}}.at(d)
	if way := in.Header.Get("Location"); in.StatusCode != 303 || way != "./queues/orders?x=y" {
		t.Errorf("the link leads to %d, %q", in.StatusCode, way)
	}
}

// Law: a login leads nowhere outside the door, whatever is asked for.
func TestLawALoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{}, "ada:admin")
	for _, bad := range []string{
		"https://evil.example/", "//evil.example/", "///evil.example", "/\\evil.example", "\\\\evil.example", "/evil", "javascript:alert(1)", " //evil.example", "\t//evil.example",
		"..", "../", "../../evil", "a/../../evil", "%2e%2e/evil", ".%2E/evil", "a/%2e%2e/%2e%2e/x", ".", "./x", "a//b", "a\\..\\..\\b", ".\t./evil", "a\r\nSet-Cookie: x=y", "a b", "é",
		"queues#evil", "%", "%zz", "login", "login?once=x", "logout", "logout/x", strings.Repeat("a", mostWay+1), "//evil.example/%2f..", "queues/%2e%2e?x",
	} {
		in := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}, "next": {bad}}}.at(d)
		way := in.Header.Get("Location")
		// A name with a colon is a page below the door, as each name is that the relative way stands before.
		if bad == "javascript:alert(1)" || bad == "https://evil.example/" {
			if way != "./" && way != "./"+bad {
				t.Errorf("%q: the login leads to %q", bad, way)
			}
			continue
		}
		if in.StatusCode != 303 || way != "./" {
			t.Errorf("%q: the login leads to %d, %q", bad, in.StatusCode, way)
		}
	}
	for _, way := range []string{"queues/a:b", "x?next=https://evil.example/", "values/a/..b"} {
		base, err := url.Parse("https://ops.example/team/ops/login")
		if err != nil {
			t.Fatal(err)
		}
		to, err := base.Parse(visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}, "next": {way}}}.at(d).Header.Get("Location"))
		if err != nil || to.Host != base.Host || to.RequestURI() != "/team/ops/"+way {
			t.Errorf("%q: the login leads to %v, %v", way, to, err)
		}
	}
}

// FuzzALoginStaysWithin asks whether any way leads out of the door, as a browser reads it.
func FuzzALoginStaysWithin(f *testing.F) {
	for _, way := range []string{"queues/a?x=y", "//evil.example", "a/../../b", "%2e%2e/x", "\\x", "a:b", "?x"} {
		f.Add(way)
	}
	f.Fuzz(func(t *testing.T, way string) {
		way = "./" + LocalWay(way)
		read := strings.NewReplacer("\t", "", "\n", "", "\r", "", "\\", "/", "%2e", ".", "%2E", ".").Replace(way)
		base, err := url.Parse("https://ops.example/team/ops/login")
		if err != nil {
			t.Fatal(err)
		}
		to, err := base.Parse(read)
		if err != nil {
			return // no browser follows it either
		}
		if to.Scheme != "https" || to.Host != "ops.example" || !strings.HasPrefix(to.Path, "/team/ops/") {
			t.Errorf("%q leads to %s", way, to)
		}
	})
}

// Law: a log-out ends the cookie itself, for whoever has a copy of it, and no other cookie of the person.
func TestLawALogoutEndsTheCookie(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{Header: "X-User", Proxies: proxies(t, "10.0.0.0/8")}, "ada:admin")
	in := func() *http.Cookie {
		return visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}}}.at(d).Cookies()[0]
	}
	one, other := in(), in()
	want(t, "the way out", visit{method: "POST", path: "/ops/logout", cookie: one}.at(d), 200, "You are logged out in this browser.")
	want(t, "a copy of the cookie", visit{cookie: one}.at(d), 401, "")
	want(t, "another cookie of the person", visit{cookie: other}.at(d), 200, "ada")
	want(t, "who comes through a proxy", visit{method: "POST", path: "/ops/logout", remote: "10.0.0.7:1", header: map[string]string{"X-User": "bob"}}.at(d), 200, "lets you in again")
}

// An address with a slash too much leads to the one without, under any path of a proxy, with its query. A request that
// would do something is told so.
func TestASlashAtTheEnd(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{}, "ada:admin")
	bearer := map[string]string{"Authorization": "Bearer " + tokens[0]}
	for path, want := range map[string]string{"/ops/queues/": "../queues", "/ops/queues/a%2Fb/?x=y": "../a%2Fb?x=y", "/ops/do/queues/pause/": "../pause"} {
		r := visit{path: path, header: bearer}.at(d)
		if way := r.Header.Get("Location"); r.StatusCode != 301 || way != want {
			t.Errorf("%s: got %d to %q, want %q", path, r.StatusCode, way, want)
		}
	}
	want(t, "the first page", visit{path: "/ops/", header: bearer}.at(d), 200, "ada")
	want(t, "nobody", visit{path: "/ops/queues/"}.at(d), 401, "Your token")
	want(t, "a key that ends with a slash", visit{path: "/ops/values/a/b%2F", header: bearer}.at(d), 200, "ada")
	for _, accept := range []string{"text/html", "application/json"} {
		want(t, "an act", visit{method: "POST", path: "/ops/do/queues/pause/", header: map[string]string{"Authorization": bearer["Authorization"], "Accept": accept}}.at(d), 404, "leave the slash out")
	}
	if r := (visit{path: "/"}).at(d); r.StatusCode != 302 || r.Header.Get("Location") != "./ops/" {
		t.Errorf("the root leads to %d, %q", r.StatusCode, r.Header.Get("Location"))
	}
}
