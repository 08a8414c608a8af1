package boot_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
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
		"flag over nonsense":               {env: []string{"MILLRACE_MAX_SEATS=many"}, args: []string{"-max-seats", "9"}, want: 9},
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
	for _, want := range []string{"MILLRACE_SEATS", `"1x"`, "1 to 100", "MILLRACE_OPEN", `"maybe"`, "true or false", `"rest"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all faults at once, %s among them", err, want)
		}
	}
	for bad, wants := range map[string][]string{
		"-seats=101":  {"-seats", `"101"`, "from 1 to 100"},
		"-open=maybe": {"-open", `"maybe"`, "true or false"},
		"-log=loud":   {"-log", `"loud"`, "debug, info, warn or error"},
	} {
		f := boot.NewFlags("test", "", env())
		f.Int("seats", 40, 1, 100, "seats")
		f.Bool("open", true, "open")
		f.Level("log", slog.LevelInfo, "level")
		err := f.Parse([]string{bad})
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to say %s", bad, err, want)
			}
		}
	}
	for _, bad := range []string{"-seats=101", "-seats=", "-seats=0x5", "-seats=5 5", "-nothing"} {
		f := boot.NewFlags("test", "", env())
		f.Int("seats", 40, 1, 100, "seats")
		if err := f.Parse([]string{bad}); err == nil {
			t.Errorf("%s: got nil, want an error", bad)
		}
	}
}

// White space around a value doesn't count, wherever the value stands: what comes from a file or a secret often ends
// with a line break.
func TestWhiteSpaceAroundASettingDoesNotCount(t *testing.T) {
	t.Parallel()
	names := []string{"seats", "open", "wait", "log", "text"}
	for _, around := range []func(string) string{
		func(v string) string { return v + "\n" }, func(v string) string { return v + "\r\n" }, func(v string) string { return " \t" + v + "  " },
	} {
		values := []string{"7", "true", "5s", "warn", "some text"}
		var variables, args []string
		for i, name := range names {
			variables = append(variables, "MILLRACE_"+strings.ToUpper(name)+"="+around(values[i]))
			args = append(args, "-"+name+"="+around(values[i]))
		}
		for where, c := range map[string]struct{ env, args []string }{"environment": {env: variables}, "flags": {args: args}} {
			f := boot.NewFlags("test", "", env(c.env...))
			seats, open, wait := f.Int("seats", 1, 1, 100, "seats"), f.Bool("open", false, "open"), f.Duration("wait", 0, 0, time.Hour, "wait")
			level, text := f.Level("log", slog.LevelInfo, "level"), f.String("text", "none", "text")
			err := f.Parse(c.args)
			got := fmt.Sprintf("%d %t %v %v %q", *seats, *open, *wait, *level, *text)
			if want := `7 true 5s WARN "some text"`; err != nil || got != want {
				t.Errorf("%s %q: got %s, error %v; want %s", where, around("x"), got, err, want)
			}
		}
	}
	f := boot.NewFlags("test", "", env("MILLRACE_TEXT= \n"))
	text := f.String("text", "none", "text")
	if err := f.Parse(nil); err != nil || *text != "none" {
		t.Errorf("a variable of white space alone: got %q, error %v; want the default, as for an empty one", *text, err)
	}
}

// A value may be a whole file by mistake: an error shows its beginning.
func TestFlagsCutLongValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("7", 3000)
	for name, args := range map[string][]string{"flag": {"-seats=" + long}, "environment": nil} {
		f := boot.NewFlags("test", "", env("MILLRACE_SEATS="+long))
		f.Int("seats", 40, 1, 100, "seats")
		if err := f.Parse(args); err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), `7"… (3000 bytes)`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A flag's value that stands in the wrong place may be secret: no error shows it.
func TestFlagsHideSecrets(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"AccountName=x;AccountKey=hunter2"}, {"-AccountName=x;AccountKey=hunter2"}, {"-storeazure:AccountKey=hunter2"}, {"-store azure:AccountKey=hunter2"},
		{"-smtp smtp://u:hunter2@h"}, {"-smtpsmtp://u:hunter2@h?from=a"}, {"---smtp=smtp://u:hunter2@h"}, {"-open", "smtp://u:hunter2@h"},
	} {
		f := boot.NewFlags("test", "", env())
		boot.AddSettings(f, "data/test.db", storage.Drivers{sqlite.Driver})
		f.Bool("open", true, "open")
		if err := f.Parse(args); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v, want an error without it", args, err)
		}
	}
}

func TestFlagsValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env, args []string
		open      bool
		level     slog.Level
	}{
		{open: false, level: slog.LevelInfo},
		{args: []string{"-open", "-log", "WARN"}, open: true, level: slog.LevelWarn},
		{args: []string{"-open=T", "-log=debug"}, open: true, level: slog.LevelDebug},
		{env: []string{"MILLRACE_OPEN=1", "MILLRACE_LOG=error"}, open: true, level: slog.LevelError},
		{env: []string{"MILLRACE_OPEN=true", "MILLRACE_LOG=loud"}, args: []string{"-open=false", "-log=warn"}, open: false, level: slog.LevelWarn},
	} {
		f := boot.NewFlags("test", "", env(c.env...))
		open, level := f.Bool("open", false, "open"), f.Level("log", slog.LevelInfo, "level")
		if err := f.Parse(c.args); err != nil || *open != c.open || *level != c.level {
			t.Errorf("%q %q: got %v, %v (%v), want %v, %v", c.env, c.args, *open, *level, err, c.open, c.level)
		}
	}
}

func TestFlagsHelp(t *testing.T) {
	t.Parallel()
	f := boot.NewFlags("test", "What it is.", env("MILLRACE_STORE=sqlite:secret.db"))
	f.String("store", "sqlite:app.db", "the `URL` of the store")
	f.Bool("worker", true, "run a worker")
	f.Level("log", slog.LevelInfo, "the `LEVEL`")
	if err := f.Parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v, want flag.ErrHelp", err)
	}
	var b bytes.Buffer
	f.WriteHelp(&b)
	want := "What it is.\n\nUsage: test [flags]\n\n" +
		"  -log LEVEL\n        the LEVEL\n        Default: info. Environment: MILLRACE_LOG\n" +
		"  -store URL\n        the URL of the store\n        Default: sqlite:app.db. Environment: MILLRACE_STORE\n" +
		"  -worker\n        run a worker\n        Default: true. Environment: MILLRACE_WORKER\n" +
		"\nA flag wins over its environment variable.\n"
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
				boot.NewFlags("test", "", env()), func(context.Context, *slog.Logger, *slog.LevelVar) error { return c.err })
			if code != c.code || !strings.Contains(errs.String(), c.stderr) || c.stderr == "" && errs.Len() > 0 {
				t.Errorf("got code %d and %q, want %d and %q", code, errs.String(), c.code, c.stderr)
			}
		})
	}
}

// parts note when they stop. Each waits until the test lets it end.
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
		synctest.Wait() // until every other goroutine has gone as far as it can
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
		if err == nil || !strings.Contains(err.Error(), "a ended before it was stopped") {
			t.Errorf("got %v, want an error that names the part", err)
		}
	})
}

// Each level names itself once: a worker's errors begin with "worker" already, and so may a program's name.
func TestErrorsSayOnceWhoseTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, part, err, want string }{
		{"worker", "worker", "worker: start: no store", "worker: start: no store\n"},
		{"worker", "server", "requests are cut off", "worker: server: requests are cut off\n"},
		{"web", "worker", "worker: start: no store", "web: worker: start: no store\n"},
		{"web", "worker", "workers: no store", "web: worker: workers: no store\n"},
	} {
		var errs bytes.Buffer
		boot.Main(t.Context(), boot.Process{Getenv: env(), Stdout: io.Discard, Stderr: &errs}, boot.NewFlags(c.program, "", env()),
			func(ctx context.Context, _ *slog.Logger, _ *slog.LevelVar) error {
				return boot.Run(ctx, boot.Part{Name: c.part, Run: func(context.Context) error { return errors.New(c.err) }})
			})
		if got := errs.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
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

// store answers one read as the test sets it.
type store struct {
	driver.Store
	err   error
	hang  bool
	reads int
}

func (s *store) Props() (p driver.Props)         { return p }
func (s *store) Committer() driver.Committer     { return nil }
func (s *store) Listener() driver.Listener       { return nil }
func (s *store) Finder() driver.Finder           { return nil }
func (s *store) Peeker() driver.Peeker           { return nil }
func (s *store) Inspector() driver.Inspector     { return nil }
func (s *store) PublicFiles() driver.PublicFiles { return nil }
func (s *store) Files() driver.Files             { return nil }
func (s *store) Blobs(string) driver.Blobs       { return blobs{s: s} }

type blobs struct {
	driver.Blobs
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

// spool holds so many messages.
type spool struct {
	waiting int64
	full    error
}

func (s spool) Takes() error   { return s.full }
func (s spool) Waiting() int64 { return s.waiting }

func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store    *store
		stopping bool
		healthy  error
		spool    boot.Spool
		code     int
		body     string
	}{
		"an empty spool": {store: &store{err: storage.ErrNotFound}, spool: spool{}, code: 200, body: "ready\n"},
		"a spool drains": {store: &store{err: storage.ErrNotFound}, spool: spool{waiting: 7}, code: 200, body: "ready: 7 in the spool, on the way to the store\n"},
		"a spool takes": {store: &store{hang: true}, spool: spool{waiting: 7}, code: 200,
			body: "ready: the spool takes messages, and holds 7; can't read from the store: no answer within 4s\n"},
		"a spool is full": {store: &store{hang: true}, spool: spool{waiting: 7, full: errors.New("it is full")}, code: 503,
			body: "not ready: can't read from the store: no answer within 4s; the spool takes nothing: it is full\n"},
		"a spool that can't be used": {store: &store{err: storage.ErrNotFound}, spool: spool{full: errors.New("its file was removed")}, code: 200, body: "ready; the spool takes nothing: its file was removed\n"},
		"a full spool drains": {store: &store{err: storage.ErrNotFound}, spool: spool{waiting: 7, full: errors.New("it is full")}, code: 200,
			body: "ready: 7 in the spool, on the way to the store; the spool takes nothing: it is full\n"},
		"ready":       {store: &store{err: storage.ErrNotFound}, code: 200, body: "ready\n"},
		"store hangs": {store: &store{hang: true}, code: 503, body: "not ready: can't read from the store: no answer within 4s\n"},
		"nobody there": {store: &store{err: fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp",
			Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 4), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})},
			code: 503, body: "not ready: can't read from the store: connection refused\n"},
		"no such host": {store: &store{err: fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.DNSError{Err: "no such host", Name: "secret.example", IsNotFound: true})},
			code: 503, body: "not ready: can't read from the store: the host name can't be resolved\n"},
		"no right": {store: &store{err: fmt.Errorf("%w: %w; secret advice", storage.ErrUnavailable, &azure.ServiceError{Status: 403, Code: "AuthorizationFailure", RequestID: "secret"})},
			code: 503, body: "not ready: can't read from the store: 403 AuthorizationFailure\n"},
		"no answer of the service": {store: &store{err: &azure.ServiceError{Status: 502}}, code: 503, body: "not ready: can't read from the store: 502 Bad Gateway\n"},
		"disk fails": {store: &store{err: fmt.Errorf("%w: secret path: %w", storage.ErrUnavailable, &sqlite.Error{Code: 10, Message: "disk I/O error"})},
			code: 503, body: "not ready: can't read from the store: disk I/O error\n"},
		"unavailable":    {store: &store{err: fmt.Errorf("%w: secret path", storage.ErrUnavailable)}, code: 503, body: "not ready: can't read from the store: the store is unavailable; see the log\n"},
		"something else": {store: &store{err: errors.New("secret path")}, code: 503, body: "not ready: can't read from the store: see the log\n"},
		"stopping":       {store: &store{err: storage.ErrNotFound}, stopping: true, code: 503, body: "not ready: stopping\n"},
		"handlers hang":  {store: &store{err: storage.ErrNotFound}, healthy: errors.New("handlers hang"), code: 503, body: "not ready: handlers hang\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				if c.stopping {
					close(stopping)
				}
				h := boot.Ops(storage.New(c.store), boot.NewMetrics(), stopping, quiet(), func() error { return c.healthy }, c.spool, nil)
				for range 3 { // the second and third answer come from the first one's read
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
	log.With("every", time.Minute).Warn("yes", "n", 1, "error", error(nil), "drain", 1500*time.Millisecond, slog.Group("in", "side", time.Hour))
	if got := b.String(); !strings.Contains(got, `"msg":"yes","every":"1m0s","n":1,"drain":"1.5s","in":{"side":"1h0m0s"}}`) || strings.Contains(got, `"no"`) {
		t.Errorf("got %q, want one JSON line", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	settings := func(args ...string) boot.Settings {
		f := boot.NewFlags("test", "", env())
		s := boot.AddSettings(f, "data/test.db", storage.Drivers{sqlite.Driver})
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		return s
	}
	var usage *boot.UsageError
	if _, _, err := settings("-store", "floppy:x").OpenStore(t.Context(), slog.New(slog.DiscardHandler)); !errors.As(err, &usage) {
		t.Errorf("got %v, want a UsageError", err)
	}
	// A store that rings by itself needs no doorbell. It refuses a bad setting all the same, before it makes a file.
	file := filepath.Join(t.TempDir(), "none.db")
	for flag, bad := range map[string][]string{
		"-doorbell: ":         {"-doorbell", "nonsense"},
		"-doorbell-address: ": {"-doorbell-address", "10.0.0.4,here", "-doorbell", "off"},
	} {
		_, _, err := settings(append(bad, "-store", "sqlite:"+file)...).OpenStore(t.Context(), quiet())
		if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), flag+"invalid argument: ") || !strings.Contains(err.Error(), "want a") {
			t.Errorf("%q: got %v, want a UsageError that names the flag and says what is wanted", bad, err)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`{"currency": "EUR", "per10000": {"blob wirte": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := boot.NewFlags("test", "", env())
	boot.AddPrices(f)
	if err := f.Parse([]string{"-prices", prices}); !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), "-prices: "+prices+`: unknown class "blob wirte"; want some of `) {
		t.Errorf("got %v, want a UsageError that names the file and the class", err)
	}
	store, _, err := settings("-store", "sqlite:"+t.TempDir()+"/x.db").OpenStore(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	boot.Close(store, &err)
	if err != nil {
		t.Error(err)
	}
}
