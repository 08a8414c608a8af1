package valet

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// private reports that nobody between the client and the program can read a key.
func (v *web) private(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	said := r.Header.Get("X-Forwarded-Proto")
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := at.Addr().Unmap()
	for _, p := range v.proxies {
		if p.Contains(addr) {
			return said == "https"
		}
	}
	return addr.IsLoopback() && (said == "" || said == "https")
}

// client is the address that a request comes from, as the nearest proxy tells it.
func (v *web) client(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(v.proxies, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap()) }) {
		return r.RemoteAddr
	}
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if last, err := netip.ParseAddr(strings.TrimSpace(said[len(said)-1])); err == nil {
		return last.String()
	}
	return r.RemoteAddr
}
