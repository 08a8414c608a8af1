package host

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// addOrigins defines the setting of the origins that are trusted beside the web's own.
func addOrigins(flags *boot.Flags) *string {
	origins := flags.String("origins", "", "the `ORIGINS` whose pages may send requests that change something, with commas, as in https://shop.example. The web's own\n"+
		"is trusted anyway; name it where a proxy before the web changes the Host header")
	flags.Check("origins", func() error {
		_, err := originGuard(*origins)
		return err
	})
	return origins
}

// originGuard refuses requests that a browser sends for a page of another origin. Such a page can't read the answer,
// but without the guard it could make anybody's browser send commands.
func originGuard(trusted string) (*http.CrossOriginProtection, error) {
	guard := http.NewCrossOriginProtection()
	for origin := range strings.SplitSeq(trusted, ",") {
		origin = strings.TrimSuffix(strings.TrimSpace(origin), "/")
		if origin == "" {
			continue
		}
		u, err := url.Parse(origin)
		if err == nil {
			u.Host = strings.ToLower(u.Host) // as browsers say it
			for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
				if u.Scheme == scheme {
					u.Host = strings.TrimSuffix(u.Host, port)
				}
			}
			err = guard.AddTrustedOrigin(u.String())
		}
		if err != nil {
			return nil, fmt.Errorf("%s is no origin; want a scheme and a host, as in https://shop.example, with commas between several", storage.Quote(origin))
		}
	}
	return guard, nil
}

// guardOrigins puts the guard before the program's web.
func (s *service) guardOrigins(a *App, web http.Handler) (http.Handler, error) {
	guard, err := originGuard(*s.origins)
	if err != nil {
		return nil, err
	}
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.lines.Log(r, a.Log, slog.LevelWarn, "a request from a page of another origin was refused", "",
			slog.String("origin", storage.Quote(r.Header.Get("Origin"))),
			slog.String("fix", "if that page may send requests here, or is this web's own behind a proxy that changes the Host header, start the web with -origins"))
		problem(w, http.StatusForbidden, "This request came from a page of another site, which may not send it.")
	}))
	return guard.Handler(web), nil
}

// byAddressAlone answers 421 to requests for other names than localhost, where a listener is for this machine alone. A
// page of anybody's can give its own name the address 127.0.0.1, and then read as its own what the listener shows.
func byAddressAlone(ln net.Listener, h http.Handler) http.Handler {
	if at, err := netip.ParseAddrPort(ln.Addr().String()); err != nil || !at.Addr().Unmap().IsLoopback() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		_, err := netip.ParseAddr(strings.Trim(name, "[]"))
		if err != nil && !strings.EqualFold(name, "localhost") {
			problem(w, http.StatusMisdirectedRequest, "This address answers to localhost and to an IP address only. Use one of them.")
			return
		}
		h.ServeHTTP(w, r)
	})
}
