package operator

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// pagesOf waits for the address of the pages, which ends with a slash.
func pagesOf(t *testing.T, p *boottest.Program) string {
	t.Helper()
	_, address, _ := strings.Cut(p.Line(t, "The pages are at "), "at ")
	return address
}

// askPages asks for the first page as a host, with some headers.
func askPages(t *testing.T, address, as string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = as
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// The command ops serves the pages of a store until a signal. Each set-up of docs/ops.md lets in whom it should.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	made := jsonLines[tokenLine](t, w.want(t, 0, "ops", "token", "ada", "operator", "--json"))[0]
	other := jsonLines[tokenLine](t, w.want(t, 0, "ops", "token", "ada", "operator", "--json"))[0]
	tokens := filepath.Join(t.TempDir(), "ops.tokens")
	if err := os.WriteFile(tokens, []byte(made.Line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		asks map[string]int // the host and the headers, with spaces between
	}{
		"tokens": {[]string{"--tokens", tokens}, map[string]int{
			"localhost": 401, "localhost Authorization Bearer+" + made.Token: 200, "localhost Authorization Bearer+" + other.Token: 401,
			"ops.example Authorization Bearer+" + made.Token: 421, "localhost X-Forwarded-For 192.0.2.7": 403,
		}},
		"tokens behind a proxy": {[]string{"--tokens", tokens, "--proxies", "127.0.0.1", "--hosts", "ops.example"}, map[string]int{
			"ops.example X-Forwarded-For 192.0.2.7 Authorization Bearer+" + made.Token: 200, "ops.example X-Forwarded-For 192.0.2.7 X-Forwarded-User eve": 401,
		}},
		"oauth2-proxy": {[]string{"--header", "X-Forwarded-User", "--proxies", "10.0.0.7,127.0.0.1", "--hosts", "ops.example"}, map[string]int{
			"ops.example X-Forwarded-User ada X-Forwarded-For 192.0.2.7": 200, "ops.example X-Forwarded-For 192.0.2.7": 401, "evil.example X-Forwarded-User ada": 421,
		}},
		"Tailscale": {[]string{"--header", "Tailscale-User-Login", "--proxies", "127.0.0.1", "--hosts", "machine.net.ts.net"}, map[string]int{
			"machine.net.ts.net Tailscale-User-Login ada X-Forwarded-For 100.64.0.7": 200, "machine.net.ts.net": 401, "evil.example Tailscale-User-Login ada": 421,
		}},
		"other machines": {[]string{"--listen", ":0", "--tokens", tokens, "--proxies", "10.0.0.7"}, map[string]int{"localhost": 401}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.begin(t, append([]string{"ops", "--listen", "127.0.0.1:0"}, c.args...)...)
			address := pagesOf(t, p)
			for ask, want := range c.asks {
				words := strings.Fields(ask)
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], "+", " ")
				}
				if got, body := askPages(t, address, words[0], words[1:]...); got != want {
					t.Errorf("%s: got %d %s, want %d", ask, got, body, want)
				}
			}
			p.Signal(t, syscall.SIGTERM)
			worldtest.Want(t, "exit code after a signal", p.Wait(t), 0)
		})
	}
}

// On this machine alone the terminal shows a link that lets in, once, whoever sees it.
func TestPagesByALink(t *testing.T) {
	t.Parallel()
	p := newWorld(t, "").begin(t, "ops", "--listen", "127.0.0.1:0")
	address := pagesOf(t, p)
	_, code, _ := strings.Cut(p.Line(t, "Open "+address+"login?once="), "once=")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(address+"login", url.Values{"once": {code}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("got %d, %v", res.StatusCode, res.Header)
	}
	c := res.Cookies()[0]
	for _, at := range []string{address, strings.TrimSuffix(address, "ops/")} { // the root leads to the pages
		if got, body := askPages(t, at, "", "Cookie", c.Name+"="+c.Value); got != http.StatusOK || !strings.Contains(body, author()) {
			t.Errorf("%s with the cookie: got %d %s", at, got, body)
		}
	}
}

// The help of a noun that is an act of its own tells of that act and of its verbs.
func TestHelpTellsOfANounAndItsVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for verb, want := range map[string][]string{
		"ops": {"serve the pages of operators, until a signal; also token"}, "spool": {"; also discard, list, release, reports"}, "queues": {"list, pause, peek, purge, resume, show"},
	} {
		i := slices.IndexFunc(Verbs(), func(v [2]string) bool { return v[0] == verb })
		if i < 0 || !strings.HasSuffix(Verbs()[i][1], want[0]) {
			t.Errorf("%s: got %v, want %q", verb, Verbs(), want)
		}
	}
	for args, want := range map[string]string{"help": "ops token NAME ROLE", "help ops": "ops token makes a token", "ops token --help": "ops --tokens, which serves the pages"} {
		if r := w.run(t, strings.Fields(args)...); r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: got %s%s, want %q", args, r.out, r.err, want)
		}
	}
}

// Pages that anybody could see, or whose tokens anybody could read, are not served. The refusal names the flag.
func TestPagesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	twice := filepath.Join(t.TempDir(), "twice.tokens")
	made := w.want(t, 0, "ops", "token", "ada", "viewer", "--json")
	line := jsonLines[tokenLine](t, made)[0].Line
	if err := os.WriteFile(twice, []byte("# who\n"+line+"\n\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"millrace: ops: --tokens: stat /nowhere":  {"--listen", "127.0.0.1:0", "--tokens", "/nowhere"},
		"line 4: line 2 has this name already. T": {"--listen", "127.0.0.1:0", "--tokens", twice},
		"set --tokens, or --header and --proxies": {"--listen", ":0"},
		"set --insecure if nobody else is on the": {"--listen", ":0", "--tokens", "x"},
		"name them in --proxies":                  {"--listen", "127.0.0.1:0", "--header", "X-User"},
		"set --tokens or --header":                {"--listen", "127.0.0.1:0", "--proxies", "10.0.0.7"},
		"want addresses such as 10.0.0.7":         {"--listen", "127.0.0.1:0", "--proxies", "proxy.example"},
	} {
		if r := w.want(t, 2, append([]string{"ops"}, args...)...); !strings.Contains(r.err, want) {
			t.Errorf("%q: got %s, want %q", args, r.err, want)
		}
	}
}
