package login

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Addresses are one or several, each with or without a range.
func TestParseProxies(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(proxies(t, " 10.0.0.7,10.1.0.0/16 ,,2001:db8::/32, ::1, ::ffff:192.0.2.1")); got != "[10.0.0.7/32 10.1.0.0/16 2001:db8::/32 ::1/128 192.0.2.1/32]" {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"proxy.example", "10.0.0.7:80", "10.0.0.0/33", "10.0.0.7;10.0.0.8", "::ffff:10.0.0.0/104"} {
		if got, err := ParseProxies(bad); err == nil || !strings.Contains(err.Error(), "10.1.0.0/16, with commas") {
			t.Errorf("%s: got %v, %v", bad, got, err)
		}
	}
	if got := ParseHosts(" ops.example,, ops.example:8443 "); len(got) != 2 || got[1] != "ops.example:8443" {
		t.Errorf("got %q", got)
	}
}

// A configuration that lets nobody in, or everybody, is an error that says what is wrong.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	some := digest("x")
	for want, cfg := range map[string]Config{
		"set tokens, or header and prox": {},
		"-ops-proxies":                   {Header: "X-User", Flag: "-ops-"},
		"no such file":                   {Tokens: "/nowhere/tokens"},
		"has no token":                   {Tokens: write("# nobody\n")},
		"line 2: want NAME:ROLE:DIGEST":  {Tokens: write("\nada admin " + some)},
		"line 1: want a role":            {Tokens: write("ada:king:" + some)},
		"line 1: the digest is not":      {Tokens: write("ada:admin:secret")},
		"line 1: want a name":            {Tokens: write(":admin:" + some)},
		"without control characters":     {Tokens: write("a\x1bb:admin:" + some)},
		"needs a token or a name":        {Proxies: proxies(t, "10.0.0.0/8")},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v; want %q", err, want)
		}
	}
	for _, bad := range [][2]string{{"ada", "king"}, {"", "admin"}, {"a:b", "admin"}, {" ada", "admin"}, {"#ada", "admin"}, {"a\nb", "admin"}} {
		if _, _, err := NewToken(bad[0], bad[1]); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// An address that other machines reach needs a login, and a way there that nobody listens to.
func TestCheckAddress(t *testing.T) {
	t.Parallel()
	wide, own := &net.TCPAddr{IP: net.IPv4zero, Port: 9090}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}
	behind := proxies(t, "10.0.0.0/8")
	for name, c := range map[string]struct {
		cfg       Config
		addr      net.Addr
		want, fix string
	}{
		"this machine alone":      {addr: own},
		"no login":                {addr: wide, want: "no login is configured", fix: "set -ops-tokens, or -ops-header and -ops-proxies, or use an address of this machine"},
		"tokens in clear text":    {addr: wide, cfg: Config{Tokens: "x"}, want: "could read tokens", fix: "-ops-insecure"},
		"tokens as somebody says": {addr: wide, cfg: Config{Tokens: "x", Insecure: true}},
		"tokens behind a proxy":   {addr: wide, cfg: Config{Tokens: "x", Proxies: behind}},
		"a proxy":                 {addr: wide, cfg: Config{Header: "X-User", Proxies: behind}},
		"insecure without login":  {addr: wide, cfg: Config{Insecure: true}, want: "no login is configured", fix: "-ops-tokens"},
	} {
		c.cfg.Flag = "-ops-"
		no := c.cfg.Check(c.addr)
		if (no == nil) != (c.want == "") || no != nil && !(strings.Contains(no.Why, c.want) && strings.Contains(no.Fix, c.fix) && strings.Contains(no.Error(), no.Fix)) {
			t.Errorf("%s: got %v; want %q, %q", name, no, c.want, c.fix)
		}
	}
}

// Law: nothing that lets somebody in is logged or shown, and a name in a header can't make a line of its own.
func TestLawSecretsStaySecret(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d, _, tokens := withTokens(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, "ada:admin")
	secret := tokens[0][:len(tokens[0])-1] + "x"
	var all strings.Builder
	for _, v := range []visit{
		{method: "POST", path: "/ops/login", form: url.Values{"token": {secret}}}, {path: "/ops/login?once=" + secret}, {path: "/ops/login?token=" + secret},
		{header: map[string]string{"Authorization": "Bearer " + secret}}, {cookie: &http.Cookie{Name: cookieName(httptest.NewRequest(http.MethodGet, "http://localhost:9090/", nil)), Value: secret}},
	} {
		r := v.at(d)
		all.WriteString(body(t, r) + fmt.Sprint(r.Header))
	}
	if strings.Contains(all.String()+log.String(), secret[:20]) {
		t.Errorf("shown: %s\nlogged: %s", all.String(), log.String())
	}
	if !strings.Contains(log.String(), "has failed") {
		t.Errorf("got %q", log.String())
	}
	for _, v := range []visit{{}, {path: "/ops/login"}, {host: "evil.example"}} {
		h := v.at(d).Header
		if h.Get("Cache-Control") != "no-store" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got headers %v", h)
		}
	}
}
