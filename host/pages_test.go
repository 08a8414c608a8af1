package host_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/ops"
)

// works is shop without its web: its address for operators is served by default.
func works() host.Program {
	p := shop()
	p.Web = nil
	return p
}

// newTokens makes a file of tokens in which ada is an operator, and returns her token.
func newTokens(t *testing.T) (path, token string) {
	t.Helper()
	token, line, err := ops.NewToken("ada", "operator")
	path = filepath.Join(t.TempDir(), "ops.tokens")
	if err == nil {
		err = os.WriteFile(path, []byte(line+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, token
}

// visit asks for a path as a host, with some headers, and follows nothing.
func visit(t *testing.T, method, address, as string, form url.Values, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = as
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if fault := res.Body.Close(); err != nil || fault != nil {
		t.Fatal(err, fault)
	}
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	return res
}

// Each set-up of docs/ops.md lets in whom it should, under the name that it should, and nobody else. The rest of the
// port answers to its own names alone.
func TestWhoMaySeeThePages(t *testing.T) {
	t.Parallel()
	tokens, token := newTokens(t)
	bearer := []string{"Authorization", "Bearer " + token}
	type ask struct {
		as      string
		headers []string
		want    int
	}
	for name, c := range map[string]struct {
		args []string
		asks []ask
	}{
		"tokens": {[]string{"-ops-tokens=" + tokens}, []ask{
			{"localhost", bearer, 200}, {"localhost", nil, 401}, {"ops.example", bearer, 421},
			{"localhost", append([]string{"X-Forwarded-For", "192.0.2.7"}, bearer...), 403},
		}},
		"tokens behind a proxy": {[]string{"-ops-tokens=" + tokens, "-ops-proxies=127.0.0.1", "-ops-hosts=ops.example"}, []ask{
			{"ops.example", append([]string{"X-Forwarded-For", "192.0.2.7"}, bearer...), 200},
			{"ops.example", []string{"X-Forwarded-For", "192.0.2.7", "X-Forwarded-User", "eve"}, 401}, {"evil.example", bearer, 421},
		}},
		"oauth2-proxy": {[]string{"-ops-header=X-Forwarded-User", "-ops-proxies=10.0.0.7, 127.0.0.1", "-ops-hosts=ops.example"}, []ask{
			{"ops.example", []string{"X-Forwarded-User", "ada", "X-Forwarded-For", "192.0.2.7"}, 200},
			{"ops.example", []string{"X-Forwarded-For", "192.0.2.7"}, 401}, {"evil.example", []string{"X-Forwarded-User", "ada"}, 421},
		}},
		"another proxy": {[]string{"-ops-header=X-Forwarded-User", "-ops-proxies=10.0.0.7", "-ops-hosts=ops.example"}, []ask{
			{"ops.example", []string{"X-Forwarded-User", "ada"}, 401}, {"ops.example", []string{"X-Forwarded-User", "ada", "X-Forwarded-For", "192.0.2.7"}, 403},
		}},
		"Tailscale": {[]string{"-ops-header=Tailscale-User-Login", "-ops-proxies=127.0.0.1", "-ops-hosts=machine.net.ts.net"}, []ask{
			{"machine.net.ts.net", []string{"Tailscale-User-Login", "ada", "X-Forwarded-For", "100.64.0.7", "X-Forwarded-Host", "machine.net.ts.net"}, 200},
			{"machine.net.ts.net", []string{"X-Forwarded-For", "100.64.0.7"}, 401}, {"evil.example", []string{"Tailscale-User-Login", "ada"}, 421},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := adminOf(t, start(t, works(), append([]string{"worker", "-admin=127.0.0.1:0"}, c.args...)...), "health and metrics at ")
			for _, a := range c.asks {
				res := visit(t, http.MethodGet, address+"/ops/", a.as, nil, a.headers...)
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != a.want || a.want == http.StatusOK && !strings.Contains(string(body), "ada") {
					t.Errorf("%s, %q: got %d %s, want %d", a.as, a.headers, res.StatusCode, body, a.want)
				}
				for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/scale?queue=orders": 200, "/opsy": 404} {
					if a.as != "localhost" {
						want = http.StatusMisdirectedRequest
					}
					if res := visit(t, http.MethodGet, address+path, a.as, nil, a.headers...); res.StatusCode != want {
						t.Errorf("%s of %s: got %d, want %d", path, a.as, res.StatusCode, want)
					}
				}
			}
		})
	}
}

// On this machine alone the link in the log lets an admin in, once, by a cookie.
func TestALinkLetsAnOperatorIn(t *testing.T) {
	t.Parallel()
	r := start(t, works(), "worker", "-admin=127.0.0.1:0")
	address := adminOf(t, r, "health and metrics at ")
	code := regexp.MustCompile(regexp.QuoteMeta(address) + `/ops/login\?once=([\w-]+)`).FindStringSubmatch(r.line(t, "a link lets an operator in"))
	if code == nil {
		t.Fatal("no link is in the log")
	}
	as := strings.TrimPrefix(address, "http://")
	in := visit(t, http.MethodPost, address+"/ops/login", as, url.Values{"once": {code[1]}})
	if in.StatusCode != http.StatusSeeOther || len(in.Cookies()) != 1 {
		t.Fatalf("got %d, %v", in.StatusCode, in.Header)
	}
	if res := visit(t, http.MethodGet, address+"/ops/", as, nil, "Cookie", in.Cookies()[0].Name+"="+in.Cookies()[0].Value); res.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: got %d", res.StatusCode)
	}
	if res := visit(t, http.MethodPost, address+"/ops/login", as, url.Values{"once": {code[1]}}); res.StatusCode != http.StatusForbidden {
		t.Errorf("the link again: got %d", res.StatusCode)
	}
}

// Where other machines reach the address, the pages are served with a login and a way there that nobody listens to. The
// program starts without them, too, and its log names what is missing.
func TestWherePagesAreServed(t *testing.T) {
	t.Parallel()
	tokens, token := newTokens(t)
	for name, c := range map[string]struct {
		args []string
		fix  string // in the log; "" where the pages are served
	}{
		"no login":              {fix: "set -ops-tokens, or -ops-header and -ops-proxies, or use an address of this machine alone"},
		"insecure, no login":    {args: []string{"-ops-insecure"}, fix: "set -ops-tokens"},
		"tokens":                {args: []string{"-ops-tokens=" + tokens}, fix: "or set -ops-insecure if nobody else is on the way"},
		"tokens in clear":       {args: []string{"-ops-tokens=" + tokens, "-ops-insecure"}},
		"tokens behind a proxy": {args: []string{"-ops-tokens=" + tokens, "-ops-proxies=10.0.0.7"}},
		"a proxy":               {args: []string{"-ops-header=X-Forwarded-User", "-ops-proxies=127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, works(), append([]string{"worker", "-admin=:0"}, c.args...)...)
			address := adminOf(t, r, "health and metrics at ")
			want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[c.fix == ""]
			if res := visit(t, http.MethodGet, address+"/ops/", "localhost", nil, "Authorization", "Bearer "+token, "X-Forwarded-User", "ada"); res.StatusCode != want {
				t.Errorf("got %d, want %d", res.StatusCode, want)
			}
			if code := visit(t, http.MethodGet, address+"/healthz", "worker.shop.svc", nil).StatusCode; code != http.StatusOK {
				t.Errorf("/healthz: got %d", code)
			}
			if warned := strings.Contains(r.String(), "the pages of operators are not served"); warned == (c.fix == "") || !strings.Contains(r.String(), c.fix) {
				t.Errorf("the log has a warning: %v, want one that says %q", warned, c.fix)
			}
		})
	}
}

// A login that nobody can use is wrong before the program starts, and the text names the flags.
func TestALoginThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, arg := range map[string]string{
		"name them in -ops-proxies":    "-ops-header=X-Forwarded-User",
		"set -ops-tokens or -ops-head": "-ops-proxies=10.0.0.7",
		"with commas between them":     "-ops-proxies=proxy.example",
		"no such file":                 "-ops-tokens=/nowhere/ops.tokens",
	} {
		r := start(t, works(), "worker", "-admin=127.0.0.1:0", arg)
		if code := <-r.code; code != host.ExitUsage || !strings.Contains(r.String(), want) {
			t.Errorf("%s: got exit code %d and %s, want %q", arg, code, r, want)
		}
	}
}

// Addresses that people type or know from before lead to those of pages, under any path that a proxy puts before all.
func TestOtherAddressesLeadOn(t *testing.T) {
	t.Parallel()
	tokens, token := newTokens(t)
	address := adminOf(t, start(t, works(), "worker", "-admin=127.0.0.1:0", "-ops-tokens="+tokens), "health and metrics at ")
	for old, now := range map[string]string{
		"/": "/ops/", "/ops/queues/?x=y": "/ops/queues?x=y", "/processes": "/ops/processes", "/processes/fulfil/o17": "/ops/processes/o17?plan=fulfil", "/processes/fulfil/a/b%20c": "/ops/processes/a%2Fb%20c?plan=fulfil", "/ops": "/ops/",
	} {
		res := visit(t, http.MethodGet, address+old, "localhost", nil, "Authorization", "Bearer "+token)
		for _, before := range []string{"", "/team", "/a/b"} {
			from, err := url.Parse("http://proxy.example" + before + old)
			if err != nil {
				t.Fatal(err)
			}
			to, err := from.Parse(res.Header.Get("Location"))
			if err != nil || res.StatusCode != http.StatusMovedPermanently && res.StatusCode != http.StatusFound || to.String() != "http://proxy.example"+before+now {
				t.Errorf("%s: got %d to %s, %v; want %s", before+old, res.StatusCode, to, err, before+now)
			}
		}
	}
}
