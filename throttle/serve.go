package throttle

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// Serve returns a handler that lets requests through to next, or answers them. Put it behind what authenticates: see
// Config.Tenant.
//
// A request whose answer has a status of 2xx or 3xx was accepted, and repeats of its ID are free. One with a tenant
// that next answers with 401 or 403 costs nothing, and its answer has none of the fields: they would tell a stranger
// what a tenant does. Without a tenant it counts, so a rate limiter bounds how often an address tries passwords. A
// redirection has no RateLimit, which could keep a client from following it.
func (d *RateLimiter) Serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var pass Pass
		if x := d.admit(r.Context(), &pass, d.party(r), d.cfg.ID(r), r.ContentLength); x != nil {
			d.cfg.Refused(w, r, x)
			return
		}
		a := &answer{ResponseWriter: w, pass: &pass}
		how := Spent
		defer func() { pass.End(how) }() // also when next panics
		if d := pass.Deferred(); d > 0 {
			r = r.WithContext(context.WithValue(r.Context(), deferredKey{}, d))
		}
		if pass.Degraded() {
			r = r.WithContext(context.WithValue(r.Context(), degradedKey{}, true))
		}
		if r.ContentLength != 0 && r.Body != nil && pass.claim.plan.bytes {
			m := &meter{ReadCloser: r.Body, pass: &pass, announced: max(r.ContentLength, 0)}
			defer m.end() // before the pass ends
			metered := *r
			metered.Body = m
			r = &metered
		}
		next.ServeHTTP(a, r)
		a.begin(http.StatusOK) // if it has not begun
		how = a.ending()
	})
}

// party returns whose quotas a request asks for.
func (d *RateLimiter) party(r *http.Request) party {
	if d.cfg.Tenant != nil {
		if name := d.cfg.Tenant(r); name != "" {
			return d.tenant(name)
		}
	}
	return d.address(d.cfg.Address(r))
}

// ending tells by the status what became of the request.
func (a *answer) ending() Ending {
	switch {
	case a.status < http.StatusBadRequest:
		return Accepted
	case !a.pass.claim.who.address && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden):
		return Void
	}
	return Spent
}

// A meter charges a body as it is read, or gives back what of the announced length was not. The server may read what
// the handler has left, when nobody counts any more.
type meter struct {
	io.ReadCloser
	pass      *Pass
	announced int64 // 0: the body has no length
	read      atomic.Int64
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	if n > 0 {
		m.read.Add(int64(n))
		if m.announced == 0 {
			m.pass.charge(int64(n))
		}
	}
	return n, err
}

func (m *meter) end() {
	if read := m.read.Load(); read < m.announced {
		m.pass.discharge(read)
	}
}

// An answer remembers the status, and adds the fields when the status is known.
type answer struct {
	http.ResponseWriter
	pass   *Pass
	status int // 0 until the header is complete
}

// begin completes the header of an answer.
func (a *answer) begin(status int) {
	if a.status != 0 {
		return
	}
	a.status = status
	if a.ending() == Void {
		return
	}
	a.pass.SetFields(a.Header())
	if status >= 300 && status < 400 && status != http.StatusNotModified {
		a.Header().Del("RateLimit")
	}
}

func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush makes it an http.Flusher, which some handlers look for.
func (a *answer) Flush() { _ = a.FlushError() } // a Flusher can't tell

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.begin(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack makes it an http.Hijacker, likewise.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}
