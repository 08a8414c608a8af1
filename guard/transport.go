package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const keyHeader = "Idempotency-Key"

// Transport returns a transport for the clients of calls under [Guard.Do]. It notes whether a request was sent before
// it failed, and [HTTP] finds that in the error. If the service is Repeatable, it gives each request whose method isn't
// safe an Idempotency-Key, unless the request has one. The key is the message's ID or, in an agent of a process,
// process.Key, which all attempts have. Outside of a handler it sets none. base defaults to http.DefaultTransport.
//
// The key is the same for all requests of a message. If the service doesn't tell them apart by their addresses, use
// [Keyed]. A key lets net/http itself repeat a request whose connection broke, so only a Repeatable service
// gets one. A transport around this one that changes a body changes GetBody, too.
func (g *Guard) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	g.transports.Store(true)
	return &transport{base: base, guard: g}
}

type transport struct {
	base  http.RoundTripper
	guard *Guard
}

// exchanges are the requests of a call. It is under the call's context.
type exchanges struct {
	done   atomic.Bool
	failed atomic.Pointer[exchangeError] // the last one without an answer, or without the end of it
	again  bool                          // the call was made before, in this delivery or an earlier one
}

type (
	exchangesKey struct{ guard *Guard }
	againKey     struct{} // of requests that may have been made before
)

// mayBeDone reports that the service may have done a request that may not be sent twice.
func (x *exchanges) mayBeDone() bool { return x != nil && x.done.Load() }

// clientTimeout is the error that an http.Client has made of another one, when its own Timeout was over.
type clientTimeout struct {
	error
	of *exchangeError
}

func (e *clientTimeout) Unwrap() []error { return []error{e.error, e.of} }

// restored returns err, or with it the error of the last exchange that failed, if an http.Client has made err of that
// one: such an error has nothing of it but the text.
func (x *exchanges) restored(err error) error {
	if x == nil || err == nil {
		return err
	}
	var (
		timed interface{ Timeout() bool }
		plain *exchangeError
		e     = x.failed.Load()
	)
	if e == nil || !errors.As(err, &timed) || !timed.Timeout() || errors.As(err, &plain) || !strings.Contains(err.Error(), e.Error()) {
		return err
	}
	return &clientTimeout{err, e}
}

// exchangesOf returns the requests of the guard's call under a context, or nil.
func (t *transport) exchangesOf(ctx context.Context) *exchanges {
	x, _ := ctx.Value(exchangesKey{t.guard}).(*exchanges)
	return x
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var traced, sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { traced.Store(true) },
		WroteHeaders: func() { sent.Store(true) },
	})
	out := r.WithContext(ctx)
	if key := messageOf(ctx).key; key != "" && t.guard.cfg.Repeatable && !isRepeatable(r) {
		out.Header = r.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set(keyHeader, key)
	}
	if r.GetBody != nil && r.Body != nil && r.Body != http.NoBody { // a call that is repeated may give the same request
		if body, err := r.GetBody(); err == nil {
			_ = r.Body.Close()
			out.Body = body
		}
	}
	if r.Context().Err() != nil {
		traced.Store(true) // nothing is sent
	}
	x := t.exchangesOf(ctx)
	if x != nil && x.again {
		out = out.WithContext(context.WithValue(ctx, againKey{}, true))
	}
	answer, err := t.base.RoundTrip(out)
	if err != nil {
		done := followsDone(r)
		// Another transport may trace nothing. Then the request may have been sent.
		e := &exchangeError{sent: done || sent.Load() || !traced.Load(), repeatable: !done && isRepeatable(out), err: err}
		if x != nil {
			x.failed.Store(e)
			if e.sent && !e.repeatable {
				x.done.Store(true)
			}
		}
		return nil, e
	}
	if x != nil && !isRepeatable(out) && mayBeDone(answer.StatusCode) {
		x.done.Store(true)
	}
	if _, upgraded := answer.Body.(io.Writer); answer.Body != nil && answer.Body != http.NoBody && !upgraded {
		answer.Body = &body{answer.Body, isRepeatable(out) && !followsDone(r), x}
	}
	return answer, nil
}

// mayBeDone reports that a status doesn't rule out that the request was done.
func mayBeDone(code int) bool {
	if code < 400 {
		return !isElsewhere(code)
	}
	return (&StatusError{Code: code}).fault().Kind == Unknown
}

// body is that of an answer. Its errors tell what the request was.
type body struct {
	io.ReadCloser
	repeatable bool
	exchanges  *exchanges // of its call; nil: there is no call
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		e := &exchangeError{sent: true, repeatable: b.repeatable, torn: true, err: err}
		if b.exchanges != nil {
			b.exchanges.failed.Store(e)
		}
		err = e
	}
	return n, err
}

// followsDone reports that a client was sent here by the answer to a request that may not be sent twice. That one was
// done, unless the answer says that it must be made again at another address.
func followsDone(r *http.Request) bool {
	for hop := r.Response; hop != nil && hop.Request != nil; hop = hop.Request.Response {
		if !isElsewhere(hop.StatusCode) && !isRepeatable(hop.Request) {
			return true
		}
	}
	return false
}

// isElsewhere reports that a status tells to make the same request at another address.
func isElsewhere(code int) bool {
	return code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect
}

// isRepeatable reports that a request may be sent twice: its method is safe, or it has a key.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header.Get(keyHeader) != ""
}

// exchangeError is the error of a request without an answer, or without the end of it.
type exchangeError struct {
	sent, repeatable bool
	torn             bool // the answer began
	err              error
}

func (e *exchangeError) Error() string {
	if e.torn {
		return "the answer broke off: " + e.err.Error()
	}
	if e.sent {
		return "sent without an answer: " + e.err.Error()
	}
	return "not sent: " + e.err.Error()
}

func (e *exchangeError) Unwrap() error { return e.err }

// Timeout tells net/http's clients that time has run out.
func (e *exchangeError) Timeout() bool {
	timed, ok := e.err.(interface{ Timeout() bool })
	return ok && timed.Timeout()
}

// StatusError is the error of an answer whose status says that the request was not done; see [CheckStatus].
type StatusError struct {
	Method string
	Code   int
	After  time.Duration // by Retry-After; 0: the answer doesn't say

	repeatable bool
	done       bool // the request before a redirect was
	again      bool // the service knows the request by its key, and may have had it before
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s was answered %d %s", e.Method, e.Code, http.StatusText(e.Code))
}

// CheckStatus returns a [StatusError] unless the status of an answer says that the request was done: one below 400, but
// not the redirects 307 and 308. It leaves the answer's body open.
func CheckStatus(answer *http.Response) error {
	if answer.StatusCode < 400 && !isElsewhere(answer.StatusCode) {
		return nil
	}
	e := &StatusError{Method: http.MethodGet, Code: answer.StatusCode, After: retryAfter(answer.Header)}
	if r := answer.Request; r != nil {
		again, _ := r.Context().Value(againKey{}).(bool)
		e.repeatable, e.done, e.again = isRepeatable(r), followsDone(r), again && r.Header.Get(keyHeader) != ""
		if r.Method != "" {
			e.Method = r.Method
		}
	}
	return e
}

// retryAfter returns how long an answer asks to wait, at most longestWait. A date counts from the answer's own date: no
// two machines' clocks are compared.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // the largest then
		return min(time.Duration(seconds)*time.Second, longestWait)
	}
	then, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(0, then.Sub(now)), longestWait)
}
