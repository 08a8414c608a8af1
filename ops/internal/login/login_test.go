package login

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A visit is a request to a door, and what came of it.
type visit struct {
	method, path, host string
	header             map[string]string
	more               http.Header // lines beside these of header
	form               url.Values
	cookie             *http.Cookie
	remote             string
	port               int // at which the request has come; 0 if nobody knows
}

// shown is what next shows to whom it lets in.
func shown(w http.ResponseWriter, r *http.Request) {
	p := Of(r)
	_, _ = fmt.Fprintf(w, "%s %d %s", p.Name, p.Role, p.From)
}

func (v visit) at(d *Door) *http.Response {
	if v.method == "" {
		v.method = http.MethodGet
	}
	if v.path == "" {
		v.path = "/ops/queues"
	}
	r := httptest.NewRequest(v.method, v.path, strings.NewReader(v.form.Encode()))
	if v.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Host, r.RemoteAddr = "localhost:9090", "127.0.0.1:5000"
	if v.host != "" {
		r.Host = v.host
	}
	if v.remote != "" {
		r.RemoteAddr = v.remote
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	for name, lines := range v.more {
		r.Header[name] = append(r.Header[name], lines...)
	}
	if v.port != 0 {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: v.port}))
	}
	if v.cookie != nil {
		r.AddCookie(v.cookie)
	}
	w := httptest.NewRecorder()
	d.Guard("/ops", http.HandlerFunc(shown)).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func want(t *testing.T, what string, r *http.Response, status int, part string) {
	t.Helper()
	if text := html.UnescapeString(body(t, r)); r.StatusCode != status || !strings.Contains(text, part) {
		t.Errorf("%s: got status %d and %q; want %d and %q", what, r.StatusCode, text, status, part)
	}
}

// withTokens makes a door with a file, and returns the tokens.
func withTokens(t *testing.T, cfg Config, names ...string) (d *Door, path string, all []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ops.tokens")
	lines := "# who may\n\n"
	for _, name := range names {
		name, role, _ := strings.Cut(name, ":")
		token, line, err := NewToken(name, role)
		if err != nil {
			t.Fatal(err)
		}
		lines, all = lines+line+"\n", append(all, token)
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Tokens = path
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d, path, all
}

// A cookie holds for half a day.
func TestACookieEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, tokens := withTokens(t, Config{}, "ada:admin")
		c := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}}}.at(d).Cookies()[0]
		time.Sleep(cookieFor - time.Second)
		want(t, "just before", visit{cookie: c}.at(d), 200, "ada")
		time.Sleep(time.Second)
		want(t, "after", visit{cookie: c}.at(d), 401, "")
	})
}

// A link works once, after a click, and for half an hour. Somebody without a link can have a new one logged.
func TestLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var links []string
		d, err := New(Config{Link: func(path string) { links = append(links, path) }})
		if err != nil || len(links) != 1 {
			t.Fatalf("got %d links, %v", len(links), err)
		}
		code := strings.TrimPrefix(links[0], "/login?once=")
		use := func(code string) *http.Response {
			return visit{method: "POST", path: "/ops/login", form: url.Values{"once": {code}}}.at(d)
		}
		want(t, "nobody", visit{}.at(d), 401, "Log a new link")
		for range 2 {
			want(t, "what looks at links", visit{path: "/ops" + links[0]}.at(d), 200, "Come in")
		}
		want(t, "a wrong link", use("x"), 403, "")
		r := use(code)
		if r.StatusCode != 303 {
			t.Fatalf("the link: got status %d", r.StatusCode)
		}
		want(t, "the one who came in", visit{cookie: r.Cookies()[0]}.at(d), 200, "operator 3")
		want(t, "the link again", use(code), 403, "")
		another := visit{method: "POST", path: "/ops/login", form: url.Values{"another": {"yes"}}}
		time.Sleep(linkAgain)
		want(t, "another", another.at(d), 200, "A new link")
		want(t, "another at once", another.at(d), 200, "made just now")
		if len(links) != 2 {
			t.Fatalf("got %d links", len(links))
		}
		time.Sleep(linkFor + time.Second)
		want(t, "an old link", use(strings.TrimPrefix(links[1], "/login?once=")), 403, "")
	})
}

// Law: loopback is no login. A request that was forwarded is refused where no proxy is configured, and a header of
// somebody who is no proxy says nothing.
func TestLawLoopbackIsNoLogin(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{}, "ada:admin")
	bearer := map[string]string{"Authorization": "Bearer " + tokens[0]}
	want(t, "from loopback", visit{}.at(d), 401, "")
	for _, name := range forwarded {
		want(t, name, visit{header: map[string]string{name: "192.0.2.1", "Authorization": bearer["Authorization"]}}.at(d), 403, "isn't configured: name its address in proxies")
	}
	proxied, err := New(Config{Header: "X-Forwarded-User", Proxies: proxies(t, "10.0.0.0/8")})
	if err != nil {
		t.Fatal(err)
	}
	user := map[string]string{"X-Forwarded-User": "ada", "X-Forwarded-For": "192.0.2.66, 192.0.2.7"}
	want(t, "from the proxy", visit{remote: "10.1.2.3:1", header: user}.at(proxied), 200, "ada 1 192.0.2.7")
	want(t, "from loopback", visit{header: map[string]string{"X-Forwarded-User": "ada"}}.at(proxied), 401, "Come in through the proxy")
	want(t, "through another proxy", visit{header: user}.at(proxied), 403, "a proxy that isn't configured")
	want(t, "an empty line of another proxy", visit{header: map[string]string{"Forwarded": ""}}.at(proxied), 403, "a proxy that isn't configured")
	want(t, "through several proxies", visit{remote: "10.1.2.3:1", header: user, more: http.Header{"X-Forwarded-For": {"192.0.2.8"}}}.at(proxied), 200, "ada 1 192.0.2.8")
	want(t, "two persons", visit{remote: "10.1.2.3:1", header: user, more: http.Header{"X-Forwarded-User": {"eve"}}}.at(proxied), 400, "several persons")
	file := filepath.Join(t.TempDir(), "people")
	if err := os.WriteFile(file, []byte("ada:admin:proxy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := New(Config{Tokens: file, Header: "X-Forwarded-User", Proxies: proxies(t, "10.0.0.0/8")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "a person with a role", visit{remote: "10.1.2.3:1", header: user}.at(both), 200, "ada 3 ")
	want(t, "a person without one", visit{remote: "10.1.2.3:1", header: map[string]string{"X-Forwarded-User": "bob"}}.at(both), 200, "bob 1 ")
	want(t, "the word in place of a digest", visit{header: map[string]string{"Authorization": "Bearer proxy"}}.at(both), 401, "")
	want(t, "from the proxy without a person", visit{remote: "10.1.2.3:1"}.at(proxied), 401, "")
	want(t, "a name that is none", visit{remote: "10.1.2.3:1", header: map[string]string{"X-Forwarded-User": strings.Repeat("x", 200)}}.at(proxied), 401, "")
}

// Law: a page of another site reaches the door neither under a name of its own nor from its own origin.
func TestLawOtherSitesStayOut(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{Hosts: []string{"ops.example"}}, "ada:admin")
	c := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}}}.at(d).Cookies()[0]
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1:9": 200, "[::1]:9": 200, "[::ffff:127.0.0.1]": 200, "ops.example": 200, "OPS.example": 200,
		"evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "ops.example:81": 421, "192.0.2.1": 421, "10.0.0.1:9090": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		want(t, host, visit{host: host, cookie: &http.Cookie{Name: cookieName(r), Value: c.Value}}.at(d), status, "")
	}
	for name, header := range map[string]map[string]string{
		"another origin": {"Origin": "https://evil.example"},
		"another site":   {"Sec-Fetch-Site": "cross-site"},
		"a sibling":      {"Sec-Fetch-Site": "same-site"},
	} {
		want(t, name, visit{method: "POST", header: header, cookie: c}.at(d), 403, "")
		want(t, name+" logs in", visit{method: "POST", path: "/ops/login", header: header, form: url.Values{"token": {tokens[0]}}}.at(d), 403, "")
	}
	want(t, "its own pages", visit{method: "POST", header: map[string]string{"Sec-Fetch-Site": "same-origin"}, cookie: c}.at(d), 200, "ada")
}

// Law: an attempt with what lets in succeeds, however many have failed from its address. The failures are answered and
// logged seldom.
func TestLawAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d, _, tokens := withTokens(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, "ada:admin")
		form := func(token string) visit {
			return visit{method: "POST", path: "/ops/login", form: url.Values{"token": {token}}}
		}
		program := func(token string) visit {
			return visit{header: map[string]string{"Authorization": "Bearer " + token}}
		}
		for range 50 {
			want(t, "the right one", form(tokens[0]).at(d), 303, "")
		}
		for i := range mostTries {
			want(t, fmt.Sprint("attempt ", i), form("x").at(d), 403, "")
		}
		for range 3 {
			want(t, "one too many", form("x").at(d), 429, "Too many attempts")
			want(t, "one too many as a program", program("x").at(d), 429, "")
			want(t, "the right one from there", form(tokens[0]).at(d), 303, "")
			want(t, "the right one as a program", program(tokens[0]).at(d), 200, "ada")
		}
		if n := strings.Count(log.String(), "has failed"); n != mostTries {
			t.Errorf("got %d lines in the log, want %d", n, mostTries)
		}
		elsewhere := form("x")
		elsewhere.remote = "192.0.2.7:1"
		want(t, "from elsewhere", elsewhere.at(d), 403, "")
		for i, last := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "a"} {
			elsewhere.remote = "[2001:db8::" + last + "]:1"
			want(t, fmt.Sprint("of one network, ", i), elsewhere.at(d), 403, "")
		}
		elsewhere.remote = "[2001:db8::b]:1"
		want(t, "one too many of it", elsewhere.at(d), 429, "")
		time.Sleep(tryAgain)
		want(t, "after a while", form("x").at(d), 403, "")
		want(t, "and at once again", program("x").at(d), 429, "")
	})
}

// Law: a link lets in, too, however many attempts have failed from its address.
func TestLawALinkIsNeverKeptOut(t *testing.T) {
	t.Parallel()
	var link string
	d, err := New(Config{Link: func(path string) { link = path }})
	if err != nil {
		t.Fatal(err)
	}
	use := func(code string) *http.Response {
		return visit{method: "POST", path: "/ops/login", form: url.Values{"once": {code}}}.at(d)
	}
	for range mostTries {
		want(t, "a wrong link", use("x"), 403, "")
	}
	want(t, "one too many", use("x"), 429, "")
	want(t, "the link", use(strings.TrimPrefix(link, "/login?once=")), 303, "")
}

// Law: where other machines reach the address in clear, the door answers to its proxies and to this machine. A proxy
// without a header forwards tokens alone.
func TestLawNoTokenComesInClear(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{Proxies: proxies(t, "10.0.0.7"), Flag: "-ops-"}, "ada:admin")
	open, _, others := withTokens(t, Config{Proxies: proxies(t, "10.0.0.7"), Insecure: true}, "ada:admin")
	send := func(d *Door, token, remote string, header map[string]string) *http.Response {
		v := visit{remote: remote, header: map[string]string{"Authorization": "Bearer " + token}}
		maps.Copy(v.header, header)
		return v.at(d)
	}
	forwards := map[string]string{"X-Forwarded-For": "192.0.2.7", "X-Forwarded-User": "eve"}
	want(t, "through the proxy", send(d, tokens[0], "10.0.0.7:1", forwards), 200, "ada 3 192.0.2.7")
	want(t, "through the proxy without a token", visit{remote: "10.0.0.7:1", header: forwards}.at(d), 401, "Your token")
	want(t, "from this machine", send(d, tokens[0], "[::ffff:127.0.0.1]:1", nil), 200, "ada")
	want(t, "from another one", send(d, tokens[0], "192.0.2.7:1", nil), 403, "Come in through the proxy")
	want(t, "the form, from another one", visit{remote: "192.0.2.7:1", path: "/ops/login"}.at(d), 403, "Come in through the proxy")
	want(t, "as if forwarded", send(d, tokens[0], "192.0.2.7:1", forwards), 403, "name its address in -ops-proxies")
	want(t, "where that is said to be no harm", send(open, others[0], "192.0.2.7:1", nil), 200, "ada 3 192.0.2.7")
}

// Law: doors of one host don't take one another's cookies away, whatever the proxies before them tell.
func TestLawDoorsOfOneHostDontCollide(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, v := range []visit{{}, {host: "localhost:9091"}, {host: "localhost", port: 9090}, {host: "localhost", port: 9091}, {host: "ops.example", port: 9090}} {
		d, _, tokens := withTokens(t, Config{Hosts: []string{"ops.example"}}, "ada:admin")
		v.method, v.path, v.form = "POST", "/ops/login", url.Values{"token": {tokens[0]}}
		c := v.at(d).Cookies()[0]
		if names[c.Name] {
			t.Errorf("%s at port %d: another door has %s", v.host, v.port, c.Name)
		}
		names[c.Name] = true
		v.method, v.path, v.form, v.cookie = "", "", nil, c
		want(t, "the cookie", v.at(d), 200, "ada")
	}
}

// A program gets each refusal as a problem document, and is told how it comes in. A browser gets a page.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d, path, tokens := withTokens(t, Config{}, "ada:admin")
	broken, gone, _ := withTokens(t, Config{}, "ada:admin")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	broken.tokens.looked = time.Time{}
	for name, c := range map[string]struct {
		at     *Door
		visit  visit
		status int
	}{
		"nobody":             {d, visit{}, 401},
		"a wrong token":      {d, visit{header: map[string]string{"Authorization": "Bearer x"}}, 401},
		"another name":       {d, visit{host: "evil.example"}, 421},
		"through a proxy":    {d, visit{header: map[string]string{"Forwarded": "for=192.0.2.1"}}, 403},
		"of another origin":  {d, visit{method: "POST", header: map[string]string{"Origin": "https://evil.example", "Authorization": "Bearer " + tokens[0]}}, 403},
		"a file that's gone": {broken, visit{header: map[string]string{"Authorization": "Bearer " + tokens[0]}}, 503},
		"a form without it":  {broken, visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}}}, 503},
		"a wrong form":       {d, visit{method: "POST", path: "/ops/login", form: url.Values{"token": {"x"}}}, 403},
		"a form too large":   {d, visit{method: "POST", path: "/ops/login", form: url.Values{"token": {strings.Repeat("x", 20_000)}}}, 400},
	} {
		for accept, media := range map[string]string{"application/json": "application/problem+json", "text/html, application/json;q=0.5": "text/html; charset=utf-8"} {
			v := c.visit
			v.more = http.Header{"Accept": {accept}}
			r := v.at(c.at)
			if got := r.Header.Get("Content-Type"); got != media || (r.Header.Get("WWW-Authenticate") == "Bearer") != (c.status == 401) {
				t.Errorf("%s, %s: got headers %v", name, accept, r.Header)
			}
			text := body(t, r)
			var problem struct {
				Title, Detail string
				Status        int
			}
			if media == "application/problem+json" {
				if err := json.Unmarshal([]byte(text), &problem); err != nil || problem.Status != c.status || problem.Detail == "" || problem.Title != http.StatusText(c.status) {
					t.Errorf("%s: got %s, %v", name, text, err)
				}
			}
			if r.StatusCode != c.status || strings.Contains(text, path) {
				t.Errorf("%s, %s: got status %d and %s, want %d", name, accept, r.StatusCode, text, c.status)
			}
		}
	}
}

// The way to the first page is relative, as all are.
func TestTheWayInIsRelative(t *testing.T) {
	t.Parallel()
	d, _, _ := withTokens(t, Config{}, "ada:admin")
	if r := (visit{path: "/ops"}).at(d); r.StatusCode != 301 || r.Header.Get("Location") != "./ops/" {
		t.Errorf("got %d, %v", r.StatusCode, r.Header)
	}
}

// proxies reads addresses of proxies.
func proxies(t *testing.T, text string) []netip.Prefix {
	t.Helper()
	all, err := ParseProxies(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
