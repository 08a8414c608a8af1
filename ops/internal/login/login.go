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
	"path"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// A Config says who may come in.
type Config struct {
	Tokens   string            // the file of tokens; "" for none
	Header   string            // in which a proxy names the person, such as X-Forwarded-User; "" for none
	Proxies  []netip.Prefix    // that may forward requests, and whose Header is believed; see [ParseProxies]
	Hosts    []string          // names of the door beside this machine's own; with a port if it isn't 80 or 443
	Insecure bool              // other machines may come without TLS and without a proxy
	Link     func(path string) // shows a link that works once, by its path; used without Tokens and Header
	Operator string            // the name of who comes in by a link; defaults to operator
	Logger   *slog.Logger
	Flag     string // stands before the names of these settings in texts, as in -ops-tokens
}

// flag is the name of a setting as people write it.
func (c Config) flag(name string) string { return c.Flag + name }

// ParseProxies reads the addresses of proxies, and ranges of addresses, with commas between them.
func ParseProxies(text string) (all []netip.Prefix, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		p, err := netip.ParsePrefix(one)
		if at, fault := netip.ParseAddr(one); fault == nil {
			at = at.Unmap()
			p, err = at.Prefix(at.BitLen())
		}
		if err != nil || p.Addr().Is4In6() { // no address is compared as the latter
			return nil, errors.New("want addresses such as 10.0.0.7 or 10.1.0.0/16, with commas between them")
		}
		all = append(all, p)
	}
	return all, nil
}

// ParseHosts reads names, with commas between them.
func ParseHosts(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
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
	d := &Door{cfg: cfg, signer: newSigner(), tries: newTries(), guard: http.NewCrossOriginProtection()}
	switch {
	case cfg.Header != "" && len(cfg.Proxies) == 0:
		return nil, fmt.Errorf("%s is believed from proxies alone: name them in %s", cfg.flag("header"), cfg.flag("proxies"))
	case len(cfg.Proxies) > 0 && cfg.Header == "" && cfg.Tokens == "":
		return nil, fmt.Errorf("who comes through one of %s needs a token or a name: set %s or %s", cfg.flag("proxies"), cfg.flag("tokens"), cfg.flag("header"))
	case cfg.Tokens != "":
		var err error
		if d.tokens, err = newTokens(cfg.Tokens); err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.flag("tokens"), err)
		}
	case cfg.Header == "" && cfg.Link == nil:
		return nil, fmt.Errorf("no way in is configured: %s", cfg.waysIn())
	case cfg.Header == "":
		d.newLink("", time.Now())
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
	if base != "" { // the mux would name the path that this process sees, and not the proxy's
		mux.HandleFunc(base, func(w http.ResponseWriter, _ *http.Request) {
			redirect(w, "./"+path.Base(base)+"/", http.StatusMovedPermanently)
		})
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "."+base+"/", http.StatusFound) })
	}
	mux.HandleFunc("POST "+base+"/logout", func(w http.ResponseWriter, r *http.Request) { d.leave(w, r, base) })
	mux.HandleFunc(base+"/", func(w http.ResponseWriter, r *http.Request) {
		person, ok, err := d.who(r)
		switch {
		case errors.Is(err, errTries):
			d.wait(w, r, base)
		case err != nil:
			d.broken(w, r, base, err)
		case !ok && r.Header.Get("Authorization") != "":
			d.page(w, r, base, http.StatusUnauthorized, "This token is not known.")
		case !ok:
			d.ask(w, r, base, http.StatusUnauthorized, "")
		case d.byWay(w, r, base):
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, person)))
		}
	})
	d.guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.page(w, r, base, http.StatusForbidden, "This request came from a page of another site, which may not send it.")
	}))
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
	switch known := d.fromProxy(r); {
	case !known && slices.ContainsFunc(forwarded, func(name string) bool { return len(r.Header.Values(name)) > 0 }):
		return &refused{http.StatusForbidden, "This request came through a proxy that isn't configured: name its address in " + d.cfg.flag("proxies") + "."}
	case !known && len(d.cfg.Proxies) > 0 && r.TLS == nil && !d.cfg.Insecure && !d.fromHere(r):
		return &refused{http.StatusForbidden, "Come in through the proxy: others could read on the way here what you send."}
	case known && d.cfg.Header != "" && len(r.Header.Values(d.cfg.Header)) > 1:
		return &refused{http.StatusBadRequest, "The proxy names several persons. It must overwrite the header " + d.cfg.Header + " that a client sends."}
	case !d.isHost(r.Host):
		return &refused{http.StatusMisdirectedRequest, "This address doesn't answer to that name. Use localhost, 127.0.0.1, or a name that stands in " + d.cfg.flag("hosts") + "."}
	}
	return nil
}

// fromHere reports that a request comes from this machine, so nobody is on its way.
func (d *Door) fromHere(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
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
		p, ok, err = d.tokens.who(token)
		if !ok && err == nil && !d.failed(r) {
			err = errTries
		}
		return p, ok, err
	}
	t, ok := d.ticket(r)
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

// ticket is the ticket of a request's cookie, if it holds.
func (d *Door) ticket(r *http.Request) (t ticket, ok bool) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return t, false // there is none
	}
	return d.signer.read(c.Value, time.Now())
}

// proxied is a person whom a proxy names. The file of tokens may say which role they have.
func (d *Door) proxied(name string) (Person, bool, error) {
	if d.tokens != nil {
		role, ok, err := d.tokens.role(name)
		if ok || err != nil {
			return Person{Name: name, Role: role}, ok, err
		}
	}
	return Person{Name: name, Role: act.Viewer}, true, nil
}

// fromProxy reports that a request comes straight from a proxy that is believed.
func (d *Door) fromProxy(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(d.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap().WithZone("")) })
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
	all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
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

// waysIn says which settings let somebody in.
func (c Config) waysIn() string {
	return fmt.Sprintf("set %s, or %s and %s", c.flag("tokens"), c.flag("header"), c.flag("proxies"))
}

// A Shut says why a door doesn't stand open at an address, and what opens it.
type Shut struct{ Why, Fix string }

// Error says both.
func (s *Shut) Error() string {
	return "the pages of operators are not served: " + s.Why + ". Fix: " + s.Fix
}

// Check says why an address that speaks plain HTTP can't have the door: everybody on the network could look at it, or
// read what it is told. It returns nil if the address can.
func (c Config) Check(address net.Addr) *Shut {
	at, err := netip.ParseAddrPort(address.String())
	if err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	switch {
	case c.Tokens == "" && c.Header == "":
		return &Shut{fmt.Sprintf("no login is configured, and other machines reach %s", address), c.waysIn() + ", or use an address of this machine alone"}
	case len(c.Proxies) == 0 && !c.Insecure:
		return &Shut{fmt.Sprintf("others could read tokens on the way to %s", address),
			fmt.Sprintf("name the proxies that speak TLS in %s, or use an address of this machine alone, or set %s if nobody else is on the way", c.flag("proxies"), c.flag("insecure"))}
	}
	return nil
}
