package boot

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// unanswered counts the requests that a stop cuts off: those whose head or body hasn't come whole, and those that are
// still being answered. A connection that is idle between two requests, or has never sent a byte, has none. An idle
// connection with a part of its next request's head counts as idle: net/http doesn't tell the two apart.
type unanswered struct {
	open sync.WaitGroup // connections

	mu       sync.Mutex
	begun    map[net.Conn]bool // connections with a request; false where the handler has returned and the answer may still be on its way
	stopping bool
	closed   int // connections that ended with a request under way while the server stopped
}

type connKey struct{}

func newUnanswered() *unanswered { return &unanswered{begun: map[net.Conn]bool{}} }

// connContext is for http.Server.ConnContext. It puts the connection into the context, for handler.
func (u *unanswered) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connState is for http.Server.ConnState. A connection becomes active when the whole head of a request has come, or
// when it ends after a part of a head.
func (u *unanswered) connState(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch state {
	case http.StateNew:
		u.open.Add(1)
	case http.StateActive:
		u.begun[c] = true
	case http.StateIdle:
		delete(u.begun, c)
	case http.StateClosed, http.StateHijacked:
		if u.begun[c] && u.stopping {
			u.closed++
		}
		delete(u.begun, c)
		u.open.Done()
	}
}

// handler notes when the handler of a request returns.
func (u *unanswered) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer u.handled(r) // deferred, because a handler may panic
		h.ServeHTTP(w, r)
	})
}

func (u *unanswered) handled(r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && u.begun[c] {
		u.begun[c] = false
	}
}

// countClosed begins the stop: from now on a connection that ends with a request under way counts.
func (u *unanswered) countClosed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopping = true
}

// waitUntilClosed waits for the connections that Shutdown has closed. That takes only a moment, because none of them
// has a running handler.
func (u *unanswered) waitUntilClosed() { u.open.Wait() }

// count returns how many requests were cut off, or will be now.
func (u *unanswered) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed + len(u.begun)
}
