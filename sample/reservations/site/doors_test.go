package site_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// from makes a server believe that a proxy brings all requests from an address, but for those that name another one.
func from(address string) func(*httptest.Server) {
	return func(server *httptest.Server) {
		next := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Forwarded-For") == "" {
				r.Header.Set("X-Forwarded-For", address)
			}
			next.ServeHTTP(w, r)
		})
	}
}

func withMail(body, mail string) string {
	return strings.Replace(body, "ada@example.org", mail, 1)
}

// An address and an e-mail address may ask only so often. Faults cost nothing, and neither does a repeat of what was
// accepted, by this process or by another one.
func TestTooOften(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	open := func() *stack {
		store, err := sqlite.Open(context.Background(), file)
		if err != nil {
			t.Fatal(err)
		}
		return newStackOn(t, store, site.Config{PerAddress: 3, PerMail: 2, Proxies: 1}, from("192.0.2.7"))
	}
	a, b := open(), open()
	for range 10 {
		a.postJSON(body(channel.NewID(), in(3), 0)).want(t, http.StatusUnprocessableEntity)
	}
	id := channel.NewID()
	first := a.postJSON(body(id, in(3), 2)).want(t, http.StatusAccepted)
	if got, want := regexp.MustCompile(`;pk=:[^:]*:`).ReplaceAllString(strings.Join(first.Header.Values("RateLimit"), ", "), ""), `"per-address";r=2, "per-mail";r=1`; got != want {
		t.Errorf("RateLimit: got %s, want %s", got, want)
	}
	a.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusAccepted)

	refused := a.postJSON(withMail(body(channel.NewID(), in(3), 2), "ADA@example.org")).
		want(t, http.StatusTooManyRequests, "Content-Type", "application/problem+json", "Cache-Control", "no-store").
		has(t, `"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"`, `"violated-policies":["per-mail"]`)
	if n := refused.Header.Values("RateLimit"); len(n) != 1 || refused.Header.Get("Retry-After") == "" {
		t.Errorf("got %v", refused.Header)
	}
	a.postJSON(withMail(body(channel.NewID(), in(3), 2), "bob@example.org")).want(t, http.StatusAccepted) // the refusal cost the address nothing
	a.postJSON(withMail(body(channel.NewID(), in(3), 2), "eve@example.org")).want(t, http.StatusTooManyRequests).has(t, `"violated-policies":["per-address"]`)
	a.postJSON(withMail(body(channel.NewID(), in(3), 2), "eve@example.org"), "X-Forwarded-For", "192.0.2.8").want(t, http.StatusAccepted)

	a.postJSON(body(id, in(3), 2)).want(t, http.StatusAccepted)
	for range 2 {
		b.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusAccepted)
	}
	b.postJSON(body(id, in(3), 2)).want(t, http.StatusAccepted)
	b.postJSON(body(id, in(3), 3)).want(t, http.StatusConflict)
	b.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusTooManyRequests)
	if got := b.log.String() + a.log.String(); got != "" {
		t.Errorf("refusals are logged: %s", got)
	}
}

// A person reads why, and when to try again, and keeps what was typed.
func TestTooOftenAsPerson(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{PerAddress: 1, Proxies: 1}, from("2001:db8::7"))
	s.postForm(form(channel.NewID(), in(3), "2")).want(t, http.StatusSeeOther, "RateLimit", "")
	again := form(channel.NewID(), in(3), "2")
	page := s.postForm(again).want(t, http.StatusTooManyRequests, "Content-Type", "text/html; charset=utf-8", "Cache-Control", "no-store").
		has(t, "Many reservations have come from your network. Please try again in ", " seconds. Your entries are still here.", `value="Ada Lovelace"`, again.Get("id"))
	if page.Header.Get("Retry-After") == "" {
		t.Errorf("got %v", page.Header)
	}
}

// Requests from this machine itself are not counted: they come from an operator, or from a proxy that everybody uses.
func TestThisMachineMayAskAlways(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{PerAddress: 1, PerMail: 1})
	for range 5 {
		s.postForm(url.Values(form(channel.NewID(), in(3), "2"))).want(t, http.StatusSeeOther)
	}
	s = newStack(t, site.Config{PerAddress: 1, PerMail: 1, Proxies: 1}) // past the proxy
	for range 5 {
		s.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusAccepted)
	}
}

// A header that names this machine switches no limit off, whoever has written it.
func TestNoHeaderSwitchesTheLimitsOff(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"127.0.0.1", "::1", "127.8.8.8", "[::1]:80", "::ffff:127.0.0.1", "192.0.2.7, 127.0.0.1", "nonsense"} {
		s := newStack(t, site.Config{PerAddress: 1, Proxies: 1}, from(said))
		s.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusAccepted)
		s.postJSON(body(channel.NewID(), in(3), 2)).want(t, http.StatusTooManyRequests)
	}
}
