package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// A Config says who may come in.
type Config struct {
	Tokens   string            // the file of tokens; "" for none
	Header   string            // in which a proxy names the person, such as X-Forwarded-User; "" for none
	Proxies  []netip.Prefix    // whose Header is believed; wanted with Header
	Role     act.Role          // of a person whom a proxy names; defaults to Viewer
	Hosts    []string          // names of the door beside this machine's own; with a port if it isn't 80 or 443
	Link     func(path string) // shows a link that works once, by its path; used without Tokens and Header
	Operator string            // the name of who comes in by a link; defaults to operator
	Logger   *slog.Logger
}

// A Person is who a request is from.
type Person struct {
	Name  string
	Role  act.Role
	From  string // the address that the request came from
	token string
}

// May reports that a person may do what needs a role.
func (p Person) May(role act.Role) bool { return p.Role >= role }

type personKey struct{}

// Of returns who a request is from that has come through a door.
func Of(r *http.Request) Person {
	p, _ := r.Context().Value(personKey{}).(Person)
	return p
}

// A Door lets people in. Its methods may be called concurrently.
type Door struct {
	cfg    Config
	tokens *tokens // nil for none
	signer *signer
	links  links
	tries  *tries
	guard  *http.CrossOriginProtection

	style, icon string // files below the base; "" for none
}

// New makes a door. Its error says which setting is wrong.
func New(cfg Config) (*Door, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Operator = cmp.Or(cfg.Operator, "operator")
	if cfg.Role == 0 {
		cfg.Role = act.Viewer
	}
	d := &Door{cfg: cfg, signer: newSigner(), tries: newTries(), guard: http.NewCrossOriginProtection()}
	switch {
	case (cfg.Header == "") != (len(cfg.Proxies) == 0):
		return nil, errors.New("a header that names the person and the proxies that set it are wanted together")
	case cfg.Tokens != "":
		var err error
		if d.tokens, err = newTokens(cfg.Tokens); err != nil {
			return nil, err
		}
	case cfg.Header == "" && cfg.Link == nil:
		return nil, errors.New("no way in is configured: want a file of tokens, or proxies with a header")
	case cfg.Header == "":
		d.newLink(time.Now())
	}
	return d, nil
}

// Dress gives the door's own pages a style sheet and an icon: files below the base, which everybody may have. Dress is
// called before Guard.
func (d *Door) Dress(style, icon string) { d.style, d.icon = style, icon }

// refused is an answer for somebody who doesn't come in.
type refused struct {
	status int
	text   string
}

// Guard lets through to next who has logged in, and answers everybody else. base is the path under which next is
// served, as this process sees it, without a slash at the end.
func (d *Door) Guard(base string, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base+"/login", func(w http.ResponseWriter, r *http.Request) { d.enter(w, r, base) })
	mux.HandleFunc("POST "+base+"/login", func(w http.ResponseWriter, r *http.Request) { d.enter(w, r, base) })
	for _, open := range []string{d.style, d.icon} {
		if open != "" {
			mux.Handle("GET "+base+"/"+open, next)
		}
	}
	mux.HandleFunc("POST "+base+"/logout", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, cookie(r, base+"/", ""))
		d.page(w, r, base, http.StatusOK, "You are logged out.")
	})
	mux.HandleFunc(base+"/", func(w http.ResponseWriter, r *http.Request) {
		person, ok, err := d.who(r)
		switch {
		case errors.Is(err, errTries):
			d.wait(w, r, base)
		case err != nil:
			d.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "nobody can log in to the pages of operators", slog.Any("error", err))
			d.page(w, r, base, http.StatusServiceUnavailable, "Nobody can log in now; the log says why.")
		case !ok && r.Header.Get("Authorization") != "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			d.page(w, r, base, http.StatusUnauthorized, "This token is not known.")
		case !ok:
			d.ask(w, r, base, http.StatusUnauthorized, "")
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, person)))
		}
	})
	guarded := d.guard.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if no := d.refuse(r); no != nil {
			d.page(w, r, base, no.status, no.text)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// forwarded are the headers by which proxies tell where a request comes from.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// refuse says why a request is refused whoever it is from.
func (d *Door) refuse(r *http.Request) *refused {
	if d.cfg.Header == "" && len(d.cfg.Proxies) == 0 {
		for _, name := range forwarded {
			if r.Header.Get(name) != "" {
				return &refused{http.StatusForbidden, "This request came through a proxy, and no proxy is configured: set the proxies of the pages for operators."}
			}
		}
	}
	if !d.isHost(r.Host) {
		return &refused{http.StatusMisdirectedRequest, "This address doesn't answer to that name. Use a name that is configured for the pages of operators, localhost or 127.0.0.1."}
	}
	return nil
}

// isHost reports that a Host header names a configured address, or this machine alone.
func (d *Door) isHost(host string) bool {
	if slices.ContainsFunc(d.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	at, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && at.Unmap().IsLoopback()
}

// who says who a request is from.
func (d *Door) who(r *http.Request) (p Person, ok bool, err error) {
	defer func() { p.From = d.from(r) }()
	if d.cfg.Header != "" && d.fromProxy(r) {
		if name := r.Header.Get(d.cfg.Header); name != "" && act.CheckNote(name, act.MaxBy) == nil {
			return d.proxied(name)
		}
	}
	if token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is && d.tokens != nil {
		from := d.from(r)
		if !d.tries.may(from, time.Now()) {
			return Person{}, false, errTries
		}
		p, ok, err = d.tokens.who(token)
		if !ok && err == nil {
			d.tries.failed(from, time.Now())
		}
		return p, ok, err
	}
	c, err := r.Cookie(cookieName)
	if err != nil {
		return Person{}, false, nil // there is none
	}
	t, ok := d.signer.read(c.Value, time.Now())
	switch {
	case !ok:
		return Person{}, false, nil
	case t.Token == "":
		return Person{Name: t.Name, Role: t.Role}, true, nil
	case d.tokens == nil:
		return Person{}, false, nil
	}
	return d.tokens.still(t.Name, t.Token)
}

// proxied is a person whom a proxy names. The file of tokens may say which role they have.
func (d *Door) proxied(name string) (Person, bool, error) {
	if d.tokens != nil {
		role, ok, err := d.tokens.role(name)
		if ok || err != nil {
			return Person{Name: name, Role: role}, ok, err
		}
	}
	return Person{Name: name, Role: d.cfg.Role}, true, nil
}

// fromProxy reports that a request comes straight from a proxy that is believed.
func (d *Door) fromProxy(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(d.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap()) })
}

// from is the address that a request came from, for the audit log: that of the person if a proxy that is believed
// tells it.
func (d *Door) from(r *http.Request) string {
	direct := r.RemoteAddr
	if host, _, err := net.SplitHostPort(direct); err == nil {
		direct = host
	}
	if !d.fromProxy(r) {
		return direct
	}
	all := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	if at, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1])); err == nil { // the one that the proxy has added
		return at.String()
	}
	return direct
}

// headers sets the headers of all answers: a page needs its own style sheet and script, and nothing else.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// ErrOpen says why a door may not stand open at an address.
var ErrOpen = errors.New("the pages of operators are not served")

// Check says why an address can't have the door: everybody on the network could look at it, or read what it is told.
// tls says that the address speaks TLS, and insecure that somebody has said that it needn't.
func (c Config) Check(address net.Addr, tls, insecure bool) error {
	at, err := netip.ParseAddrPort(address.String())
	if err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	switch {
	case c.Tokens == "" && c.Header == "":
		return fmt.Errorf("%w at %s, which other machines reach, because no login is configured", ErrOpen, address)
	case !tls && len(c.Proxies) == 0 && !insecure:
		return fmt.Errorf("%w at %s, because others could read tokens on the way there", ErrOpen, address)
	}
	return nil
}
