package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Limits of every server. A handler that streams, or takes a large body, moves its own deadlines with
// http.ResponseController.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	httpDrainTimeout  = 10 * time.Second // for requests under way when the server stops
)

// Listen opens the port that a flag asks for, so that a program can report at once that the port is taken. The
// address is HOST:PORT; no host means all, port 0 takes a free one.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &UsageError{fmt.Errorf("-%s %q: want HOST:PORT or :PORT", flag, addr)}
	}
	if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil && ctx.Err() == nil {
		return nil, &UsageError{fmt.Errorf("-%s %q: want a port from 0 to 65535, as in :8080; 0 takes a free one", flag, addr)}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("can't listen on %s: another program uses this address. Stop it, or choose another one with -%s (port 0 takes a free one)", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("can't listen on %s: this user may not use that port. Choose one above 1023 with -%s", addr, flag)
	case err != nil:
		return nil, fmt.Errorf("can't listen on %s: %w", addr, err)
	}
	return ln, nil
}

// URL is where people on this machine reach a listener.
func URL(ln net.Listener) string {
	host, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return "http://" + ln.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Serve answers requests until ctx ends. Then it accepts no more, waits a while for those under way, and cuts off and
// logs the rest: a client that doesn't finish its request, or doesn't read its answer, must not make a stop look like
// a failure. Serve closes the listener.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	// Requests outlive ctx, so that those under way can be answered.
	requests, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	unanswered := newUnanswered()
	srv := &http.Server{
		Handler:           unanswered.handler(h),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnContext:       unanswered.connContext,
		ConnState:         unanswered.connState,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	began := time.Now()
	unanswered.countClosed()
	draining, done := context.WithTimeout(context.WithoutCancel(ctx), httpDrainTimeout)
	defer done()
	err := srv.Shutdown(draining)
	if err == nil {
		unanswered.waitUntilClosed()
	}
	if n := unanswered.count(); n > 0 {
		log.WarnContext(ctx, "requests cut off: the server stopped before it had received or answered them",
			"requests", n, "waited", time.Since(began).Round(time.Millisecond))
	}
	if err == nil {
		return nil
	}
	cancel(context.Cause(ctx))
	return srv.Close() // closes the listener only: cut-off requests are no failure
}
