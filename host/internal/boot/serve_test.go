package boot_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// pipes is a listener in memory, so that its connections work in a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() pipes { return pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// dial connects and sends text. It returns when the server has read all of it.
func (p pipes) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	p.conns <- server
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	return client
}

// slowly answers as the path says, once the whole body has come.
func slowly(causes chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		switch r.URL.Path {
		case "/slow":
			select {
			case <-time.After(8 * time.Second):
			case <-r.Context().Done():
			}
		case "/endless":
			<-r.Context().Done()
			causes <- context.Cause(r.Context())
		case "/large":
			_, _ = w.Write(make([]byte, 1<<20)) // fails when the server cuts it off
		}
	})
}

// A stop waits for the requests under way, and ends in order whatever a client does. Requests without an answer by
// then are cut off, counted and logged.
func TestServeStops(t *testing.T) {
	t.Parallel()
	at := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	keep := at("/")
	for name, c := range map[string]struct {
		sent, then string // then is sent after the answer to sent
		answer     bool   // the last request gets one, after the stop has begun
		cut        int
		most       time.Duration
	}{
		"no connection":                        {},
		"a connection that never sent a byte":  {most: 7 * time.Second},
		"an idle connection":                   {sent: keep},
		"half a head":                          {sent: "GET / HTTP/1.1\r\nHost", cut: 1, most: 7 * time.Second},
		"half a head on an idle connection":    {sent: keep, then: "GET / HTTP/1.1\r\nHost"}, // counts as idle
		"half a body":                          {sent: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345", cut: 1, most: 10 * time.Second},
		"half a body in chunks":                {sent: "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12", cut: 1, most: 10 * time.Second},
		"half a body on an idle connection":    {sent: keep, then: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345", cut: 1, most: 10 * time.Second},
		"a handler that answers in time":       {sent: at("/slow"), answer: true, most: 9 * time.Second},
		"a handler that would never answer":    {sent: at("/endless"), cut: 1, most: 10 * time.Second},
		"a client that doesn't read an answer": {sent: at("/large"), cut: 1, most: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				ctx, cancel := context.WithCancelCause(t.Context())
				ln, causes, ended := newPipes(), make(chan error, 1), make(chan error)
				go func() {
					ended <- boot.Serve(ctx, ln, slowly(causes), slog.New(slog.NewJSONHandler(&logged, nil)))
				}()
				var in *bufio.Reader
				if name != "no connection" {
					conn := ln.dial(t, c.sent)
					in = bufio.NewReader(conn)
					if c.sent == keep {
						wantAnswer(t, in)
						if _, err := io.WriteString(conn, c.then); err != nil {
							t.Fatal(err)
						}
					}
				}
				synctest.Wait() // until the server waits for the client, or for its handler
				began, stop := time.Now(), errors.New("stop")
				cancel(stop)
				if c.answer {
					wantAnswer(t, in)
				}
				if err := <-ended; err != nil {
					t.Errorf("got %v, want nil: a client's fault is no failure of the server", err)
				}
				if took := time.Since(began); took > c.most+time.Second {
					t.Errorf("the stop took %v, want %v at most", took, c.most)
				}
				if got := cutOff(t, &logged); got != c.cut {
					t.Errorf("got %d requests cut off, want %d; log: %s", got, c.cut, &logged)
				}
				if c.sent == at("/endless") {
					if got := <-causes; !errors.Is(got, stop) {
						t.Errorf("the handler's context ended with %v, want %v", got, stop)
					}
				}
			})
		})
	}
}

// All cut-off requests of several clients are one log line.
func TestServeCountsWhatItCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ln, causes, ended := newPipes(), make(chan error, 1), make(chan error)
		go func() {
			ended <- boot.Serve(ctx, ln, slowly(causes), slog.New(slog.NewJSONHandler(&logged, nil)))
		}()
		for _, sent := range []string{"", "GET /", "GET /a", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345", "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"} {
			ln.dial(t, sent)
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if got, want := cutOff(t, &logged), 4; got != want {
			t.Errorf("got %d requests cut off, want %d; log: %s", got, want, &logged)
		}
	})
}

func wantAnswer(t *testing.T, in *bufio.Reader) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("got %d (%v), want 200", res.StatusCode, err)
	}
}

// cutOff returns how many requests were cut off, according to the log; 0 if the log is empty.
func cutOff(t *testing.T, log *bytes.Buffer) int {
	t.Helper()
	if log.Len() == 0 {
		return 0
	}
	var line struct{ Requests int }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil { // more than one line is an error
		t.Fatalf("%s: %v", log, err)
	}
	return line.Requests
}
