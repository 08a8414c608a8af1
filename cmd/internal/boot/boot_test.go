package boot_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/cmd/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v
			}
		}
		return ""
	}
}

func TestFlagsPrecedence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		args []string
		want int
	}{
		"default":                          {want: 40},
		"environment":                      {env: []string{"MILLRACE_MAX_SEATS=7"}, want: 7},
		"empty environment counts as none": {env: []string{"MILLRACE_MAX_SEATS="}, want: 40},
		"flag":                             {args: []string{"-max-seats", "9"}, want: 9},
		"flag over environment":            {env: []string{"MILLRACE_MAX_SEATS=7"}, args: []string{"--max-seats=9"}, want: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := boot.NewFlags("test", "", env(c.env...))
			got := f.Int("max-seats", 40, 1, 100, "seats")
			if err := f.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if *got != c.want {
				t.Errorf("got %d, want %d", *got, c.want)
			}
		})
	}
}

func TestFlagsFaults(t *testing.T) {
	t.Parallel()
	f := boot.NewFlags("test", "", env("MILLRACE_SEATS=1x", "MILLRACE_OPEN=maybe"))
	f.Int("seats", 40, 1, 100, "seats")
	f.Bool("open", true, "open")
	err := f.Parse([]string{"rest"})
	for _, want := range []string{"MILLRACE_SEATS", "1 to 100", "MILLRACE_OPEN", `"rest"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all faults at once, %s among them", err, want)
		}
	}
	for _, bad := range []string{"-seats=101", "-seats=", "-seats=0x5", "-seats=5 ", "-nothing"} {
		f := boot.NewFlags("test", "", env())
		f.Int("seats", 40, 1, 100, "seats")
		if err := f.Parse([]string{bad}); err == nil {
			t.Errorf("%s: got nil, want an error", bad)
		}
	}
}

func TestFlagsHelp(t *testing.T) {
	t.Parallel()
	f := boot.NewFlags("test", "What it is.", env("MILLRACE_STORE=sqlite:secret.db"))
	f.Secret("store", "sqlite:app.db", "the `URL` of the store")
	if err := f.Parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v, want flag.ErrHelp", err)
	}
	var b bytes.Buffer
	f.WriteHelp(&b)
	want := "What it is.\n\nUsage: test [flags]\n\n  -store URL\n        the URL of the store\n" +
		"        Default: sqlite:app.db. Environment: MILLRACE_STORE\n\nA flag wins over its environment variable.\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMainExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		err    error
		code   int
		stderr string
	}{
		"done":     {},
		"help":     {args: []string{"-help"}},
		"failed":   {err: errors.New("no luck"), code: boot.ExitError, stderr: "test: no luck\n"},
		"bad flag": {args: []string{"-x"}, code: boot.ExitUsage, stderr: "-x"},
		"usage":    {err: &boot.UsageError{Err: errors.New("no")}, code: boot.ExitUsage, stderr: "test -help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := boot.Main(t.Context(), boot.Process{Args: c.args, Getenv: env(), Stdout: &out, Stderr: &errs},
				boot.NewFlags("test", "", env()), func(context.Context, *slog.Logger) error { return c.err })
			if code != c.code || !strings.Contains(errs.String(), c.stderr) || c.stderr == "" && errs.Len() > 0 {
				t.Errorf("got code %d and %q, want %d and %q", code, errs.String(), c.code, c.stderr)
			}
		})
	}
}

// parts are parts that note when they stop, and take their time over it: each waits until the test lets it go.
type parts struct {
	mu    sync.Mutex
	noted []string
}

func (p *parts) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noted = append(p.noted, s)
}

func (p *parts) part(name string, result error) boot.Part {
	return boot.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		p.note(name + " stops: " + context.Cause(ctx).Error())
		synctest.Wait() // whoever could go on now has done so
		p.note(name + " ends")
		return result
	}}
}

func TestRunStopsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p parts
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- boot.Run(ctx, p.part("a", nil), p.part("b", nil), p.part("c", nil)) }()
		synctest.Wait()
		cancel(errors.New("signal"))
		if err := <-ended; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		want := []string{"a stops: signal", "a ends", "b stops: signal", "b ends", "c stops: signal", "c ends"}
		if !slices.Equal(p.noted, want) {
			t.Errorf("got %q, want %q", p.noted, want)
		}
	})
}

func TestRunStopsWhenOneFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p parts
		broken := errors.New("broken")
		err := boot.Run(t.Context(), p.part("a", errors.New("stop failed")),
			boot.Part{Name: "b", Run: func(context.Context) error { return broken }}, p.part("c", nil))
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
			t.Errorf("got %v, want the first error and whose it is", err)
		}
		want := []string{"a stops: b: broken", "a ends", "c stops: b: broken", "c ends"}
		if !slices.Equal(p.noted, want) {
			t.Errorf("got %q, want %q", p.noted, want)
		}
	})
}

func TestRunPartEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p parts
		err := boot.Run(t.Context(), boot.Part{Name: "a", Run: func(context.Context) error { return nil }}, p.part("b", nil))
		if err == nil || !strings.Contains(err.Error(), "a ended by itself") {
			t.Errorf("got %v, want an error that names the part", err)
		}
	})
}

func TestURL(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{":0": "http://localhost:", "0.0.0.0:0": "http://localhost:", "127.0.0.1:0": "http://127.0.0.1:"} {
		ln, err := boot.Listen(t.Context(), "addr", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got := boot.URL(ln); got != want+port {
			t.Errorf("%s: got %s, want %s", addr, got, want+port)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServeReportsFailure(t *testing.T) {
	t.Parallel()
	ln, err := boot.Listen(t.Context(), "addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := boot.Serve(t.Context(), ln, http.NotFoundHandler(), quiet()); err == nil {
		t.Error("got nil, want an error: the listener is closed")
	}
}

// store answers one read, as it is told.
type store struct {
	storage.Store
	err   error
	hang  bool
	reads int
}

func (s *store) Blobs(string) storage.Blobs { return blobs{s: s} }

type blobs struct {
	storage.Blobs
	s *store
}

func (b blobs) Get(ctx context.Context, _ string, _ storage.ETag) (storage.Blob, error) {
	b.s.reads++
	if b.s.hang {
		<-ctx.Done()
		return storage.Blob{}, context.Cause(ctx)
	}
	return storage.Blob{}, b.s.err
}

func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store    *store
		stopping bool
		code     int
		body     string
	}{
		"ready":       {store: &store{err: storage.ErrNotFound}, code: 200, body: "ready\n"},
		"store fails": {store: &store{err: errors.New("secret path")}, code: 503, body: "not ready: the store doesn't answer\n"},
		"store hangs": {store: &store{hang: true}, code: 503, body: "not ready: the store doesn't answer\n"},
		"stopping":    {store: &store{err: storage.ErrNotFound}, stopping: true, code: 503, body: "not ready: stopping\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				if c.stopping {
					close(stopping)
				}
				h := boot.Ops(c.store, boot.NewMetrics(), stopping, quiet())
				for range 3 { // the second and third answer come from the first one's reading
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
					if w.Code != c.code || w.Body.String() != c.body {
						t.Errorf("got %d %q, want %d %q", w.Code, w.Body, c.code, c.body)
					}
				}
				if c.store.reads > 1 {
					t.Errorf("got %d reads, want at most one in a second", c.store.reads)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
				if w.Code != 200 {
					t.Errorf("healthz: got %d, want 200 whatever the store does", w.Code)
				}
			})
		})
	}
}

func TestLoggerWritesJSONWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := boot.NewLogger(&b, slog.LevelWarn, env())
	log.Info("no")
	log.Warn("yes", "n", 1)
	if got := b.String(); !strings.Contains(got, `"msg":"yes","n":1`) || strings.Contains(got, `"no"`) {
		t.Errorf("got %q, want one JSON line", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	settings := func(args ...string) boot.Settings {
		f := boot.NewFlags("test", "", env())
		s := boot.AddSettings(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if _, where, err := settings().Mailer(); err != nil || where != "files in data/mail" {
		t.Errorf("got mails to %q (%v), want files in data/mail", where, err)
	}
	if _, where, err := settings("-smtp", "smtps://ada:hunter2@mx.example").Mailer(); err != nil || where != "smtps://mx.example:465" {
		t.Errorf("got mails to %q (%v), want the server without the password", where, err)
	}
	var usage *boot.UsageError
	if _, _, err := settings("-smtp", "mx.example").Mailer(); !errors.As(err, &usage) {
		t.Errorf("got %v, want a UsageError", err)
	}
	if _, err := settings("-store", "floppy:x").OpenStore(t.Context()); !errors.As(err, &usage) {
		t.Errorf("got %v, want a UsageError", err)
	}
	store, err := settings("-store", "sqlite:"+t.TempDir()+"/x.db").OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot.Close(store, &err)
	if err != nil {
		t.Error(err)
	}
}
