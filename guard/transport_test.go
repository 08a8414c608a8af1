package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// web is a server on loopback. The path of a request chooses its answer, or that its connection breaks.
type web struct {
	url  string
	keys atomic.Pointer[string] // the Idempotency-Key of the last request
}

func newWeb(t *testing.T) *web {
	w := &web{}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		w.keys.Store(&key)
		switch r.URL.Path {
		case "/busy":
			out.Header().Set("Retry-After", "30")
			out.WriteHeader(http.StatusTooManyRequests)
		case "/reset": // the request has come, and no answer goes out
			conn, _, err := out.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		case "/cut": // the answer breaks
			out.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(out, "half")
		}
	}))
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

// sendBy makes a call of a service over HTTP, as a handler does.
func sendBy(client *http.Client, method, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if err := guard.CheckStatus(answer); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
}

// A real server refuses, breaks connections and asks to wait; the transport tells what was sent.
func TestTransport(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	const nobody = "http://127.0.0.1:1"
	for _, c := range []struct {
		name, method, url string
		repeatable        bool
		want              verdict.Action
		key               string
	}{
		{name: "done", method: "POST", url: w.url, want: verdict.Done},
		{name: "done with a key", method: "POST", url: w.url, repeatable: true, want: verdict.Done, key: "b"},
		{name: "a safe method has no key", method: "GET", url: w.url, repeatable: true, want: verdict.Done},
		{name: "nobody listens", method: "POST", url: nobody, want: verdict.TryAgain},
		{name: "asked to wait", method: "POST", url: w.url + "/busy", want: verdict.HandBack},
		{name: "sent, no answer", method: "POST", url: w.url + "/reset", want: verdict.ToPoison},
		{name: "sent with a key, no answer", method: "POST", url: w.url + "/reset", repeatable: true, want: verdict.TryAgain, key: "b"},
		{name: "asked, no answer", method: "GET", url: w.url + "/reset", want: verdict.TryAgain},
		{name: "half an answer", method: "POST", url: w.url + "/cut", want: verdict.ToPoison},
	} {
		g := once(guard.New("crm", guard.Config{Fault: guard.HTTP, Repeatable: c.repeatable, Logger: quietLogger()}))
		base := &http.Transport{}
		client := &http.Client{Transport: g.Transport(base)}
		if err := g.Do(handling(t, "a", 1), sendBy(client, "POST", w.url)); err != nil {
			t.Fatal(err)
		}
		err := g.Do(handling(t, "b", 1), sendBy(client, c.method, c.url))
		wantAction(t, c.name, err, c.want)
		if c.url != nobody {
			worldtest.Want(t, c.name+": key", *w.keys.Load(), c.key)
		}
		base.CloseIdleConnections()
	}
}

// A POST that may have been done isn't sent again by its handler: neither after a 500, nor after an answer that can't
// be read.
func TestAPostThatMayBeDoneIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		body string
		want verdict.Action
	}{"500": {code: 500, want: verdict.ToPoison}, "an answer that is no JSON": {code: 200, body: "<html>", want: verdict.ToPoison}} {
		for what, fault := range map[string]func(error) guard.Fault{"HTTP": guard.HTTP, "Usual": nil} {
			posts := 0
			g := guard.New("bank", guard.Config{Fault: fault, Logger: quietLogger()})
			client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
				posts++
				return &http.Response{StatusCode: c.code, Request: r, Body: io.NopCloser(strings.NewReader(c.body))}, nil
			}))}
			err := g.Do(handling(t, id(1), 1), func(ctx context.Context) error {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.example", nil)
				if err != nil {
					return err
				}
				answer, err := client.Do(r)
				if err != nil {
					return err
				}
				defer func() { _ = answer.Body.Close() }()
				if err := guard.CheckStatus(answer); err != nil {
					return err
				}
				return json.NewDecoder(answer.Body).Decode(&job{})
			})
			wantAction(t, name+" by "+what, err, c.want)
			worldtest.Want(t, name+" by "+what+": requests", posts, 1)
		}
	}
}

// An answer that breaks off leaves open whether a request was done, unless that may be sent twice.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]guard.Kind{"GET": guard.Transient, "POST": guard.Unknown} {
		for what, broken := range map[string]error{"early": io.ErrUnexpectedEOF, "for a reason of its own": errInvalid} {
			g := guard.New("crm", guard.Config{})
			client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Request: r, Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)))}, nil
			}))}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://crm.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = io.ReadAll(answer.Body); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
			worldtest.Want(t, method+" that breaks off "+what, guard.HTTP(err).Kind, want)
			_ = answer.Body.Close()
		}
	}
}

// A request that was refused was not done, whatever its handler makes of it. A handler's own verdict counts.
func TestErrorsOfAHandlerAfterAPost(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		code   int
		fault  guard.Fault
		verify func(context.Context, string) (bool, error)
		want   verdict.Action
	}{
		"done":               {code: 200, fault: guard.Fault{Kind: guard.Transient, NotInPlace: true}, want: verdict.ToPoison},
		"refused":            {code: 400, fault: guard.Fault{Kind: guard.Transient, NotInPlace: true}, want: verdict.HandBack},
		"overloaded":         {code: 503, fault: guard.Fault{Kind: guard.Transient, NotInPlace: true}, want: verdict.HandBack},
		"broke":              {code: 502, fault: guard.Fault{Kind: guard.Transient, NotInPlace: true}, want: verdict.ToPoison},
		"done, can be asked": {code: 200, fault: guard.Fault{Kind: guard.Transient, NotInPlace: true}, verify: func(context.Context, string) (bool, error) { return false, nil }, want: verdict.HandBack},
		"known to be undone": {code: 200, fault: guard.Fault{Kind: guard.Transient}, want: verdict.HandBack},
	} {
		g := once(guard.New("bank", guard.Config{Fault: func(error) guard.Fault { return c.fault }, Verify: c.verify, Logger: quietLogger()}))
		client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.code, Request: r, Body: http.NoBody}, nil
		}))}
		err := g.Do(handling(t, id(1), 1), func(ctx context.Context) error {
			_ = posting(client, "http://bank.example")(ctx)
			return errInvalid
		})
		wantAction(t, what, err, c.want)
	}
}

// A call that panics after a request is not made again by a guess, unless the request was refused.
func TestLaw11ACallThatPanicsAfterAPost(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]verdict.Action{200: verdict.ToPoison, 400: verdict.HandBack} {
		g := guard.New("bank", guard.Config{Logger: quietLogger()})
		client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Request: r, Body: http.NoBody}, nil
		}))}
		err := g.Do(handling(t, id(1), 1), func(ctx context.Context) error {
			_ = posting(client, "http://bank.example")(ctx)
			panic("index out of range")
		})
		wantAction(t, fmt.Sprintf("the answer %d", code), err, want)
	}
}

// A panic with nil is a panic, also where GODEBUG has panicnil=1, and the end of the goroutine is none.
func TestLaw11ACallThatPanicsWithNilAfterAPost(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	g := guard.New("bank", guard.Config{Logger: quietLogger()})
	client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Request: r, Body: http.NoBody}, nil
	}))}
	err := g.Do(handling(t, id(1), 1), func(ctx context.Context) error {
		_ = posting(client, "http://bank.example")(ctx)
		panic(nil)
	})
	wantAction(t, "done", err, verdict.ToPoison)
}

// An error whose methods panic is an error like any other, and the service is not asked again at once.
func TestAnErrorAroundANilPointerIsAnError(t *testing.T) {
	t.Parallel()
	g := guard.New("bank", guard.Config{Logger: quietLogger()})
	calls := 0
	err := g.Do(handling(t, id(1), 1), func(context.Context) error {
		calls++
		return fmt.Errorf("read: %w", (*os.PathError)(nil))
	})
	wantAction(t, "wrapped nil", err, verdict.HandBack)
	worldtest.Want(t, "calls", calls, 1)
	var failed *guard.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "read: ") {
		t.Errorf("got %v, want the error of the call", err)
	}
}

// A transport that traces nothing leaves open whether a request was sent, and a key of the user's own stays.
func TestOtherTransports(t *testing.T) {
	t.Parallel()
	g := guard.New("crm", guard.Config{Repeatable: true, Logger: quietLogger()})
	var got string
	base := tripper(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Idempotency-Key")
		return nil, errInvalid
	})
	client := &http.Client{Transport: g.Transport(base)}
	r, err := http.NewRequestWithContext(handling(t, "a", 1), "POST", "http://crm.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = nil
	_, err = client.Do(r)
	worldtest.Want(t, "key", got, "a")
	worldtest.Want(t, "the request's own headers", len(r.Header), 0)
	worldtest.Want(t, "with a key", guard.HTTP(err).Kind, guard.Transient)
	r.Header = http.Header{"Idempotency-Key": {"mine"}}
	_, _ = client.Do(r)
	worldtest.Want(t, "key", got, "mine")
	client.Transport = guard.New("crm", guard.Config{}).Transport(base)
	_, err = client.Post("http://crm.example", "", nil)
	worldtest.Want(t, "without a key", guard.HTTP(err).Kind, guard.Unknown)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
