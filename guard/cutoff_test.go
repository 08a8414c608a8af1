package guard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// Law 11: a worker stops while a call has no answer yet. The call isn't made again, unless that is safe.
func TestLaw11AStopRepeatsNoCall(t *testing.T) {
	once := func(h *handlers.Registry, f func(context.Context, job) error) { handlers.ReactOnce(h, "jobs", f) }
	each := func(h *handlers.Registry, f func(context.Context, job) error) { handlers.React(h, "jobs", f) }
	inTurn := func(h *handlers.Registry, f func(context.Context, job) error) {
		handlers.OneAtATime(h, "jobs", func(job) string { return "a" }, f)
	}
	verify := func(context.Context, string) (bool, error) { return false, nil }
	notSent := &net.OpError{Op: "dial", Err: errors.New("cut off")}
	for name, c := range map[string]struct {
		register func(*handlers.Registry, func(context.Context, job) error)
		cfg      guard.Config
		err      error // of the call that is cut off; nil: the cause
		calls    int32
		poisoned int
	}{
		"React":      {register: each, calls: 1, poisoned: 1},
		"ReactOnce":  {register: once, calls: 1, poisoned: 1},
		"in turn":    {register: inTurn, calls: 1, poisoned: 1},
		"canceled":   {register: once, err: context.Canceled, calls: 1, poisoned: 1},
		"broken":     {register: once, err: io.ErrUnexpectedEOF, calls: 1, poisoned: 1},
		"not sent":   {register: once, err: notSent, calls: 2},
		"repeatable": {register: once, cfg: guard.Config{Repeatable: true}, calls: 2},
		"verified":   {register: once, cfg: guard.Config{Verify: verify}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int32
				w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[job]("jobs"))
				c.cfg.Logger, c.cfg.Timeout = slog.New(slog.DiscardHandler), 10*time.Second
				g := guard.New("bank", c.cfg)
				c.register(w.Registry, guard.Around(g, func(ctx context.Context, _ job) error {
					if calls.Add(1) > 1 {
						return nil
					}
					<-ctx.Done()
					if c.err != nil {
						return c.err
					}
					return context.Cause(ctx)
				}))
				cfg := worker.Config{Logger: slog.New(slog.DiscardHandler), DrainTimeout: time.Second, Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}}
				stop := w.Start(cfg)
				s, err := channel.NewSender[job](w.Channels)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(t.Context(), job{1}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				worldtest.Want(t, "calls before the stop", calls.Load(), 1)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if g.Open() {
					t.Error("the breaker counts a call that was cut off")
				}
				stop = w.Start(cfg)
				time.Sleep(5 * time.Minute)
				if err := stop(); err != nil {
					t.Error(err)
				}
				poisoned := w.Poisoned("jobs")
				if calls.Load() != c.calls || len(poisoned) != c.poisoned {
					t.Errorf("%d calls, poisoned %+v; want %d calls, %d poisoned", calls.Load(), poisoned, c.calls, c.poisoned)
				}
				for _, p := range poisoned {
					worldtest.Want(t, "the reason", p.Reason, guard.ReasonUnknown)
				}
			})
		})
	}
}

// A call whose handler is told to end before its request is sent is handed back, not poisoned.
func TestLaw11NothingWasSentBeforeTheEnd(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer s.Close()
	g := guard.New("bank", guard.Config{Fault: guard.HTTP})
	client := &http.Client{Transport: g.Transport(nil)}
	stopping := errors.New("the worker stops")
	ctx, cancel := context.WithCancelCause(handling(t, id(1), 1))
	err := g.Do(ctx, func(ctx context.Context) error {
		cancel(stopping) // while the call still prepares its request
		return posting(client, s.URL)(ctx)
	})
	if v := verdict.Judge(err); err == nil || v.Action == verdict.ToPoison {
		t.Errorf("got %v, %v", v.Action, err)
	}
}

// Law 11: a request that was done, and answered by a redirect, isn't sent again because of what is there.
func TestLaw11NothingIsRepeatedBehindARedirect(t *testing.T) {
	for name, c := range map[string]struct {
		code   int // of the redirect
		target int // status there; 0: nobody is there
		want   guard.Kind
		posts  int32
	}{
		"done, then down":       {code: 303, want: guard.Unknown, posts: 1},
		"done, then an error":   {code: 302, target: 500, want: guard.Unknown, posts: 1},
		"done, then throttled":  {code: 301, target: 429, want: guard.Unknown, posts: 1},
		"done, then refused":    {code: 303, target: 404, want: guard.Unknown, posts: 1},
		"sent on, then down":    {code: 307, want: guard.Transient, posts: 2},
		"sent on, then refused": {code: 308, target: 404, want: guard.Permanent, posts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.target) }))
			defer second.Close()
			next := second.URL
			if c.target == 0 {
				next = "http://127.0.0.1:1" // a port that was closed might be given to another listener
			}
			var posts atomic.Int32
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				http.Redirect(w, r, next+"/receipt", c.code)
			}))
			defer first.Close()
			g := guard.WithInPlace(guard.New("bank", guard.Config{Fault: guard.HTTP}), time.Millisecond)
			client := &http.Client{Transport: g.Transport(nil)}
			var failed *guard.Error
			if err := g.Do(handling(t, id(1), 1), posting(client, first.URL)); !errors.As(err, &failed) || failed.Fault.Kind != c.want || posts.Load() != c.posts {
				t.Errorf("%d posts, %v; want %d, %v", posts.Load(), err, c.posts, c.want)
			}
		})
	}
}

// Law 11: the same holds for a redirect that the client can't follow, or doesn't.
func TestLaw11ARedirectThatCannotBeFollowed(t *testing.T) {
	for name, to := range map[string]string{"no address": "http://%zz/", "a circle": "/", "turned down": "/elsewhere"} {
		for method, want := range map[string]guard.Kind{http.MethodPost: guard.Unknown, http.MethodGet: guard.Transient} {
			t.Run(method+" "+name, func(t *testing.T) {
				var posts atomic.Int32
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						posts.Add(1)
					}
					w.Header().Set("Location", to)
					w.WriteHeader(http.StatusSeeOther)
				}))
				defer s.Close()
				for _, known := range []func(error) guard.Fault{guard.HTTP, guard.Usual} {
					posts.Store(0)
					g := guard.WithInPlace(guard.New("bank", guard.Config{Fault: known}), time.Millisecond)
					client := &http.Client{Transport: g.Transport(nil)}
					if name == "turned down" {
						client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("no redirects") }
					}
					var failed *guard.Error
					err := g.Do(handling(t, id(1), 1), func(ctx context.Context) error {
						r, err := http.NewRequestWithContext(ctx, method, s.URL, nil)
						if err != nil {
							return err
						}
						return roundTrip(client, r)
					})
					if !errors.As(err, &failed) || failed.Fault.Kind != want || posts.Load() > 1 {
						t.Errorf("%d posts, %v; want %v", posts.Load(), err, want)
					}
				}
			})
		}
	}
}

// posting makes a new request for each call.
func posting(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("order 7"))
		if err != nil {
			return err
		}
		return roundTrip(client, r)
	}
}

func roundTrip(client *http.Client, r *http.Request) error {
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return guard.CheckStatus(answer)
}

// A redirect that its client doesn't follow, and that asks to make the request elsewhere, isn't done.
func TestARedirectThatIsNotFollowed(t *testing.T) {
	for code, want := range map[int]guard.Kind{302: guard.Done, 303: guard.Done, 307: guard.Permanent, 308: guard.Permanent} {
		s := httptest.NewServer(http.RedirectHandler("/elsewhere", code))
		g := guard.New("bank", guard.Config{Fault: guard.HTTP})
		client := &http.Client{Transport: g.Transport(nil), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		var failed *guard.Error
		switch err := g.Do(handling(t, id(1), 1), posting(client, s.URL)); {
		case want == guard.Done && err != nil, want != guard.Done && (!errors.As(err, &failed) || failed.Fault.Kind != want):
			t.Errorf("%d: got %v, want %v", code, err, want)
		}
		s.Close()
	}
}

// A call that is repeated with the same request has the whole body again, over HTTP/1 and HTTP/2.
func TestARepeatedRequestHasItsBody(t *testing.T) {
	for name, newServer := range map[string]func(http.Handler) *httptest.Server{
		"HTTP/1": httptest.NewServer,
		"HTTP/2": func(h http.Handler) *httptest.Server {
			s := httptest.NewUnstartedServer(h)
			s.EnableHTTP2 = true
			s.StartTLS()
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			bodies := make(chan string, 2)
			s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies <- string(b)
				if calls.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer s.Close()
			g := guard.WithInPlace(guard.New("crm", guard.Config{Fault: guard.HTTP}), time.Millisecond)
			client := &http.Client{Transport: g.Transport(s.Client().Transport)}
			ctx := handling(t, id(1), 1)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader([]byte("order 7")))
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Do(ctx, func(ctx context.Context) error { return roundTrip(client, r.WithContext(ctx)) }); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				worldtest.Want(t, "the body", <-bodies, "order 7")
			}
		})
	}
}
