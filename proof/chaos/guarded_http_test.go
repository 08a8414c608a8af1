package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
)

// bureau is an HTTP service, and its client. A POST is done when it is heard. A GET asks whether it was.
type bureau struct {
	url    string
	client *http.Client // that of calls, with the guard's transport
	plain  *http.Client // that of questions

	mu     sync.Mutex
	heard  map[string]int // calls that were done, by message
	holds  bool           // answers come only when the connection ends
	held   int            // such calls
	refuse int            // this many calls are answered 429
	said   time.Time      // when the last of those was answered
	next   time.Time      // the first call after that
}

// newBureau starts a service behind a wire.
func newBureau(t *testing.T) (*bureau, *wire) {
	t.Helper()
	s := &bureau{heard: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /calls/{id}", s.post)
	mux.HandleFunc("GET /calls/{id}", s.get)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w, err := newWire("web", "127.0.0.1:0", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.down)
	s.url = "http://" + w.proxy.Listen + "/calls/"
	s.plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return s, w
}

func (s *bureau) post(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if !s.said.IsZero() && s.next.IsZero() {
		s.next = time.Now()
	}
	if s.refuse > 0 {
		s.refuse--
		s.said = time.Now()
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.heard[r.PathValue("id")]++
	holds := s.holds
	if holds {
		s.held++
	}
	s.mu.Unlock()
	if holds {
		<-r.Context().Done()
	}
}

func (s *bureau) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard[r.PathValue("id")] == 0 {
		http.NotFound(w, r)
	}
}

func (s *bureau) done() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.heard)
}

// hold lets the answers wait for the end of their connections.
func (s *bureau) hold(holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = holds
}

func (s *bureau) holding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// trying is the key of a call's try in its context.
type trying struct{}

// tracked is a connection that notes in a try that something was written to it, whatever became of that.
type tracked struct {
	net.Conn
	by *try
}

func (c tracked) Write(p []byte) (int, error) {
	c.by.sent.Store(true)
	return c.Conn.Write(p)
}

// under gives the calls the transport of a guard. Each has a connection of its own.
func (s *bureau) under(g *guard.Guard) {
	s.client = &http.Client{Transport: g.Transport(&http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if by, ok := ctx.Value(trying{}).(*try); ok && err == nil {
				return tracked{conn, by}, nil
			}
			return conn, err
		},
	})}
}

func (s *bureau) call(ctx context.Context, id string, made *try) error {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, trying{}, made), http.MethodPost, s.url+id, nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	return errors.Join(guard.CheckStatus(answer), answer.Body.Close())
}

// verify asks whether a call was done.
func (s *bureau) verify(ctx context.Context, id string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+id, nil)
	if err != nil {
		return false, err
	}
	answer, err := s.plain.Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("asked whether %s is done: %s", id, answer.Status)
}

// onHTTP starts a worker whose messages call a service. If it can be asked, messages with an unknown outcome are never poisoned, and none is
// done twice.
func onHTTP(t *testing.T, asked bool, timeout time.Duration) (*guarded, *bureau) {
	t.Helper()
	t.Parallel()
	s, w := newBureau(t)
	cfg := guard.Config{Fault: guard.HTTP, Timeout: timeout}
	if asked {
		cfg.Verify = s.verify
	}
	return newGuarded(t, w, s, cfg), s
}

// endsExactly checks the laws of HTTP beside those of all: what is unknown is told exactly, and nothing is done twice.
func (l *guarded) endsExactly(lost int) {
	l.t.Helper()
	l.ends(lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.tries {
		if sent := x.sent.Load(); x.kind == guard.Unknown && !sent || x.kind == guard.Transient && sent {
			l.t.Errorf("message %s: a call is judged as %v, and sent is %v", x.id, x.kind, sent)
		}
	}
	for id, n := range l.service.done() {
		if n > 1 {
			l.t.Errorf("message %s was done %d times", id, n)
		}
	}
}

const (
	everyUnknown = -1

	quick = 5 * time.Second // a Timeout that tests wait for
	long  = time.Hour       // of a disturbance that ends by hand
)

// Calls that are under way are cut off: unknown. Later ones find no connection: transient.
func TestHTTPCutOff(t *testing.T) {
	l, s := onHTTP(t, true, 0)
	l.send(some)
	l.until("messages are done", func() bool { return len(s.done()) == some })
	s.hold(true)
	l.send(10)
	l.until("calls are under way", func() bool { return s.holding() == 10 })
	l.wire.down()
	l.until("they fail", func() bool { return l.judged(guard.Unknown) == 10 })
	s.hold(false)
	l.send(some)
	l.untilOpen()
	probes := l.judged(guard.Transient)
	l.until("probes fail", func() bool { return l.judged(guard.Transient) >= probes+3 })
	l.up()
	l.endsExactly(0)
	if n := l.judged(guard.Unknown); n != 10 {
		t.Errorf("%d calls have an unknown outcome, want 10", n)
	}
}

// Without a way to ask, exactly the messages whose outcome is unknown wait for an operator. None of them is called again.
func TestHTTPCutOffUnasked(t *testing.T) {
	l, s := onHTTP(t, false, 0)
	s.hold(true)
	l.send(10)
	l.until("calls are under way", func() bool { return s.holding() == 10 })
	l.wire.down()
	l.until("they fail", func() bool { return l.judged(guard.Unknown) == 10 })
	s.hold(false)
	l.send(some)
	l.untilOpen()
	l.up()
	l.endsExactly(10)
	for id, reason := range l.lost() {
		if reason != guard.ReasonUnknown || s.done()[id] != 1 {
			t.Errorf("message %s was done %d times and lies in the poison queue as %q, want once, and %q", id, s.done()[id], reason, guard.ReasonUnknown)
		}
	}
}

// A connection that is reset with the first bytes: the service has heard nothing, but nobody knows.
func TestHTTPReset(t *testing.T) {
	unknownBy(t, 0, "reset_peer", "upstream")
}

// unknownBy disturbs the connections in a way that leaves outcomes unknown, until the breaker opens.
func unknownBy(t *testing.T, timeout time.Duration, toxic, stream string) {
	t.Helper()
	l, _ := onHTTP(t, false, timeout) // else the question fails first, and nothing is sent
	over := l.disturb(toxic, stream, map[string]any{"timeout": 0})
	l.send(some)
	l.untilOpen()
	if l.judged(guard.Unknown) == 0 {
		t.Error("no outcome is unknown")
	}
	over()
	l.endsExactly(everyUnknown)
}

// Answers come later than the Timeout. Each call was done, and none is repeated.
func TestHTTPSlow(t *testing.T) {
	l, s := onHTTP(t, false, quick)
	over := l.disturb("latency", "downstream", map[string]any{"latency": long.Milliseconds()})
	l.send(some)
	l.untilOpen()
	if n := l.judged(guard.Unknown); n == 0 || len(s.done()) < n {
		t.Errorf("%d outcomes are unknown, and %d calls were done", n, len(s.done()))
	}
	over()
	l.endsExactly(everyUnknown)
}

// The connection stands, and nothing comes through in one direction.
func TestHTTPHalfOpen(t *testing.T) {
	for _, stream := range []string{"upstream", "downstream"} {
		t.Run(stream, func(t *testing.T) { unknownBy(t, quick, "timeout", stream) })
	}
}

// A program starts while its service is down. Nothing is sent, so nothing is unknown, and no message is lost even if the
// service can't be asked.
func TestHTTPDownThenUp(t *testing.T) {
	l, _ := onHTTP(t, false, 0)
	l.wire.down()
	l.send(some)
	l.untilOpen()
	l.until("probes fail", func() bool { return l.judged(guard.Transient) >= 25 })
	l.up()
	l.endsExactly(0)
	if n := l.judged(guard.Unknown); n != 0 {
		t.Errorf("%d outcomes are unknown, want none", n)
	}
}

// The service asks to wait: nobody calls before that time is over.
func TestHTTPAsksToWait(t *testing.T) {
	l, s := onHTTP(t, false, 0)
	s.refuse = 1
	l.send(1)
	l.until("the service asks to wait", func() bool { return l.judged(guard.Throttled) == 1 })
	l.send(some)
	l.endsExactly(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := s.next.Sub(s.said); wait < time.Second {
		t.Errorf("the next call came after %v, want one second at least", wait)
	}
	if n := l.judged(guard.Transient) + l.judged(guard.Unknown); n != 0 {
		t.Errorf("%d calls have failed, want none", n)
	}
}
