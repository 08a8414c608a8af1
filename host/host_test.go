package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/views"
)

type order struct{ Item string }

func (order) Kind() channel.Kind { return "test.order.v1" }

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(channel.Command[order]("orders"))
}

func register(h *handlers.Registry) error {
	handlers.React(h, "orders", func(context.Context, order) error { return nil })
	return nil
}

func web(*host.App) (http.Handler, error) { return http.NotFoundHandler(), nil }

// shop has everything that a program can have.
func shop() host.Program {
	return host.Program{Name: "shop", Routes: routes, Register: register, Web: web}
}

// A program opens in order, and stops in order: web, loops, worker, closings, store, summary.
func TestOrderOfStartAndStop(t *testing.T) {
	t.Parallel()
	out := newOutput()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p := shop()
	p.Start = func(_ context.Context, a *host.App) error {
		say("start")
		for _, name := range []string{"first", "second"} {
			a.Go(name, func(ctx context.Context) error {
				<-ctx.Done()
				say("%s loop stops", name)
				return ctx.Err()
			})
			a.OnClose(func() error {
				say("%s closing, store open: %v", name, a.Channels.Send(context.WithoutCancel(t.Context()), order{}) == nil)
				return nil
			})
		}
		return nil
	}
	p.Register = func(h *handlers.Registry) error { say("register"); return register(h) }
	p.Web = func(a *host.App) (http.Handler, error) {
		say("web")
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-a.Stopping
			say("request ends")
		}), nil
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() {
		ended <- host.Run(ctx, host.Process{Args: []string{"-addr=127.0.0.1:0", "-store=sqlite:" + filepath.Join(t.TempDir(), "shop.db")}, Stdout: out, Stderr: out}, p)
	}()
	url := out.line(t, "http://")
	res, err := http.Get(url[strings.Index(url, "http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	out.line(t, "worker consumes")
	stop()
	if code := <-ended; code != host.ExitOK {
		t.Errorf("got exit code %d, want 0", code)
	}
	wantOrder(t, out.String(), "start\n", "register\n", "web\n", "Serving at", "request ends\n", "first loop stops\n", "second loop stops\n",
		`"worker stopped"`, "second closing, store open: true\n", "first closing, store open: true\n", "storage requests for 0 commands handled")
}

// When a step of the start fails, the closings of the steps before are called.
func TestClosingsOfAProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*host.Program){
		"start":    func(p *host.Program) { p.Start = opening(p.Start, errors.New("no luck")) },
		"register": func(p *host.Program) { p.Register = func(*handlers.Registry) error { return errors.New("no luck") } },
		"web": func(p *host.Program) {
			p.Web = func(*host.App) (http.Handler, error) { return nil, errors.New("no luck") }
		},
		"no handler": func(p *host.Program) { p.Web = func(*host.App) (http.Handler, error) { return nil, nil } },
		"a loop":     func(p *host.Program) { p.Start = looping(p.Start, errors.New("no luck")) },
		"loop ends":  func(p *host.Program) { p.Start = looping(p.Start, nil) },
		"no loop": func(p *host.Program) {
			p.Start = starting(p.Start, func(a *host.App) { a.Go("mine", nil) })
		},
		"no closing": func(p *host.Program) { p.Start = starting(p.Start, func(a *host.App) { a.OnClose(nil) }) },
		"a closing": func(p *host.Program) {
			p.Start = starting(opening(p.Start, errors.New("no luck")), func(a *host.App) {
				a.OnClose(func() error { runtime.Goexit(); return nil })
				a.OnClose(func() error { panic("a bad closing") })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shop()
			closed := false
			p.Start = func(_ context.Context, a *host.App) error {
				a.OnClose(func() error { closed = true; return errors.New("closing fails, too") })
				return nil
			}
			spoil(&p)
			r := start(t, p, "-addr=127.0.0.1:0")
			if code := <-r.code; code != host.ExitError {
				t.Errorf("got exit code %d, want 1", code)
			}
			r.code <- host.ExitError // for end
			if !closed {
				t.Error("what Start opened is left open")
			}
			want := map[string]string{
				"no handler": "Program.Web returned no handler", "loop ends": "own loop ended before it was stopped",
				"no loop": `App.Go("mine", nil): want a function`, "no closing": "App.OnClose(nil): want a function",
			}[name]
			if want == "" {
				want = "no luck"
			}
			wantOrder(t, r.String(), "shop: ", want, "closing fails, too")
			if strings.Contains(r.String(), "0 storage requests") {
				t.Errorf("nothing was asked of the store, and this tells its cost:\n%s", r)
			}
		})
	}
}

func starting(first func(context.Context, *host.App) error, then func(*host.App)) func(context.Context, *host.App) error {
	return func(ctx context.Context, a *host.App) error {
		err := first(ctx, a)
		then(a)
		return err
	}
}

func opening(first func(context.Context, *host.App) error, then error) func(context.Context, *host.App) error {
	return func(ctx context.Context, a *host.App) error { return errors.Join(first(ctx, a), then) }
}

func looping(first func(context.Context, *host.App) error, ends error) func(context.Context, *host.App) error {
	return func(ctx context.Context, a *host.App) error {
		a.Go("own loop", func(context.Context) error { return ends })
		return first(ctx, a)
	}
}

// A stop while the program starts is an orderly one, unless a closing fails.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closing error
		code    int
		want    string
	}{
		"orderly": {code: host.ExitOK, want: "stopped while starting"},
		"not":     {closing: errors.New("disk full"), code: host.ExitError, want: "shop: disk full\n"},
	} {
		p := shop()
		waiting := make(chan struct{})
		p.Start = func(ctx context.Context, a *host.App) error {
			a.OnClose(func() error { return c.closing })
			close(waiting)
			<-ctx.Done()
			return fmt.Errorf("start: %w", ctx.Err())
		}
		r := start(t, p, "-addr=127.0.0.1:0")
		<-waiting
		if code := r.end(); code != c.code || !strings.Contains(r.String(), c.want) {
			t.Errorf("%s: got exit code %d and\n%s\nwant %d and %q", name, code, r, c.code, c.want)
		}
	}
}

// The verbs decide what runs in a process.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args        []string
		spoil       func(*host.Program)
		web, worker bool
		says        string // in the line for people
	}{
		"both":                      {args: []string{"-addr=127.0.0.1:0"}, web: true, worker: true, says: "The worker runs in this process. Stop with Ctrl-C."},
		"without the worker":        {args: []string{"-addr=127.0.0.1:0", "-worker=false"}, web: true, says: "start one with the same -store: shop worker."},
		"web":                       {args: []string{"web", "-addr=127.0.0.1:0"}, web: true, says: "The worker does not run here"},
		"web with a worker":         {args: []string{"web", "-addr=127.0.0.1:0", "-worker"}, web: true, worker: true, says: "runs in this process"},
		"worker":                    {args: []string{"worker", "-admin=127.0.0.1:0"}, worker: true, says: "Stop with Ctrl-C."},
		"a program without workers": {args: []string{"-addr=127.0.0.1:0"}, spoil: func(p *host.Program) { p.Register = nil }, web: true, says: "Stop with Ctrl-C."},
		"a program without web":     {args: []string{"-admin=127.0.0.1:0"}, spoil: func(p *host.Program) { p.Web = nil }, worker: true, says: "Stop with Ctrl-C."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shop()
			if c.spoil != nil {
				c.spoil(&p)
			}
			var web, worker bool
			p.Start = func(_ context.Context, a *host.App) error {
				web, worker = a.Web, a.Worker
				a.Say("Parcels go to %s.", "a\x1bb")
				return nil
			}
			r := start(t, p, c.args...)
			url := r.url(t)
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				if code, body := boottest.Get(t, url+path); code != http.StatusOK {
					t.Errorf("%s: got %d %s, want 200", path, code, body)
				}
			}
			if line := r.line(t, "Stop with"); !strings.HasPrefix(line, `Parcels go to a\x1bb. `) || !strings.Contains(line, c.says) {
				t.Errorf("got %q, want the program's own words and %q", line, c.says)
			}
			if c.worker {
				r.line(t, "worker consumes")
			}
			if code := r.end(); code != host.ExitOK || web != c.web || worker != c.worker || strings.Contains(r.String(), "worker starts") != c.worker {
				t.Errorf("got exit code %d, web %v and worker %v, want 0, %v and %v", code, web, worker, c.web, c.worker)
			}
		})
	}
}

// A program can't take the addresses of the operators away.
func TestOperatorsAddresses(t *testing.T) {
	t.Parallel()
	p := shop()
	p.Web = func(*host.App) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "shop "+r.URL.Path) }), nil
	}
	url := start(t, p, "web", "-addr=127.0.0.1:0").url(t)
	for path, want := range map[string]string{"/": "shop /", "/any/thing": "shop /any/thing", "/healthz": "alive\n", "/readyz": "ready\n"} {
		if code, body := boottest.Get(t, url+path); code != http.StatusOK || body != want {
			t.Errorf("%s: got %d %q, want 200 %q", path, code, body, want)
		}
	}
	if _, body := boottest.Get(t, url+"/metrics"); !strings.Contains(body, "millrace_storage_requests_total") {
		t.Errorf("got %s, want the requests to the store", body)
	}
}

// The pages of processes are on the address of the operators, and never on the web.
func TestOperatorsPages(t *testing.T) {
	t.Parallel()
	planned := shop()
	planned.Web = nil
	planned.Routes = func() (*channel.Routes, error) {
		return channel.NewRoutes(channel.Command[order]("orders"), process.Route("fulfil"))
	}
	web := planned
	web.Web = func(*host.App) (http.Handler, error) { return http.NotFoundHandler(), nil }
	plain := shop()
	plain.Web = nil
	for name, c := range map[string]struct {
		program host.Program
		args    []string
		want    int
	}{
		"worker": {planned, []string{"worker", "-admin=127.0.0.1:0"}, http.StatusUnauthorized}, "web": {web, []string{"web", "-addr=127.0.0.1:0"}, http.StatusNotFound},
		"both": {web, []string{"-addr=127.0.0.1:0"}, http.StatusNotFound}, "no plan": {plain, []string{"worker", "-admin=127.0.0.1:0"}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, c.program, c.args...).url(t)
			for _, path := range []string{"/processes", "/processes/fulfil/o17", "/ops/"} {
				if code, body := boottest.Get(t, url+path); code != c.want {
					t.Errorf("%s: got %d %q, want %d", path, code, body, c.want)
				}
			}
			if code, _ := boottest.Get(t, url+"/healthz"); code != http.StatusOK {
				t.Errorf("/healthz: got %d", code)
			}
		})
	}
}

// A taken port, and flags that are wrong, leave nothing behind.
func TestNothingIsOpenedTooEarly(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := shop()
	p.Flags = func(f *host.Flags) {
		for _, name := range []string{"from", "to"} {
			f.String(name, "", "a place")
			f.Check(name, func() error { return errors.New("want a place") })
		}
	}
	p.Start = func(context.Context, *host.App) error { t.Error("it starts"); return nil }
	for name, c := range map[string]struct {
		program host.Program
		args    []string
		code    int
		want    string
	}{
		"port":   {program: shop(), args: []string{"-addr", ln.Addr().String()}, code: host.ExitError, want: "another program uses this address"},
		"ports":  {program: shop(), args: []string{"-addr=:99999"}, code: host.ExitUsage, want: "-addr \":99999\": want a port from 0 to 65535, as in :8080; 0 takes a free one\nRun shop -help"},
		"no one": {program: shop(), args: []string{"-addr=127.0.0.1:0", "-admin=:nosuchservice"}, code: host.ExitUsage, want: "-admin \":nosuchservice\": want a port"},
		"host":   {program: shop(), args: []string{"-addr=8080"}, code: host.ExitUsage, want: "want HOST:PORT or :PORT"},
		"admin":  {program: shop(), args: []string{"worker", "-admin", ln.Addr().String()}, code: host.ExitError, want: "choose another one with -admin"},
		"checks": {program: p, code: host.ExitUsage, want: "shop: -from: want a place\n-to: want a place\nRun shop -help"},
		"number": {program: shop(), args: []string{"-active=many"}, code: host.ExitUsage, want: "want a whole number from 0 to 1000"},
		"prices": {program: shop(), args: []string{"-prices=" + t.TempDir()}, code: host.ExitUsage, want: "-prices: "},
		"verb":   {program: shop(), args: []string{"-addr=:0", "worker"}, code: host.ExitUsage, want: `unknown argument "worker"; a verb stands before the flags`},
	} {
		out := newOutput()
		file := filepath.Join(t.TempDir(), "shop.db")
		env := func(name string) string { return map[string]string{"MILLRACE_STORE": "sqlite:" + file}[name] }
		code := host.Run(t.Context(), host.Process{Args: c.args, Getenv: env, Stdout: out, Stderr: out}, c.program)
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", name, code, out, c.code, c.want)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want no store", name, err)
		}
	}
}

// A program's own flags have environment variables of the program's name. Those of the framework keep theirs.
func TestFlagsOfAProgram(t *testing.T) {
	t.Parallel()
	type settings struct {
		seats *int
		open  *bool
		pause *time.Duration
		key   *string
	}
	var got settings
	p := shop()
	p.Name = "tea-shop"
	p.Flags = func(f *host.Flags) {
		got = settings{f.Int("seats", 40, 1, 100, "`SEATS`"), f.Bool("open-late", false, "open late"), f.Duration("pause", time.Minute, time.Second, time.Hour, "a `PAUSE`"), f.String("key", "", "a `KEY`")}
	}
	ctx, stop := context.WithCancel(t.Context())
	p.Start = func(context.Context, *host.App) error { stop(); return nil }
	env := func(name string) string {
		return map[string]string{
			"TEA_SHOP_SEATS": "7", "TEA_SHOP_PAUSE": "90s", "TEA_SHOP_KEY": "hunter2", "TEA_SHOP_OPEN_LATE": "1", "TEA_SHOP_STORE": "floppy:", "MILLRACE_SEATS": "9",
			"MILLRACE_STORE": "sqlite:" + filepath.Join(t.TempDir(), "shop.db"), "MILLRACE_ADMIN": "off",
		}[name]
	}
	out := newOutput()
	if code := host.Run(ctx, host.Process{Args: []string{"worker", "-pause", "2m"}, Getenv: env, Stdout: out, Stderr: out}, p); code != host.ExitOK {
		t.Fatalf("got exit code %d, want 0: %s", code, out)
	}
	if *got.seats != 7 || !*got.open || *got.pause != 2*time.Minute || *got.key != "hunter2" {
		t.Errorf("got %d, %v, %v and %q, want those of the environment, and the flag's pause", *got.seats, *got.open, *got.pause, *got.key)
	}
	help := newOutput()
	if code := host.Run(ctx, host.Process{Command: "tea", Args: []string{"help", "worker"}, Getenv: env, Stdout: help, Stderr: help}, p); code != host.ExitOK {
		t.Errorf("got exit code %d, want 0", code)
	}
	for _, want := range []string{"tea-shop\n", "  tea worker   runs a worker only\n", "Usage: tea worker [flags]\n", "  -seats SEATS\n", "TEA_SHOP_SEATS\n", "TEA_SHOP_OPEN_LATE\n",
		"Default: 1m0s. Environment: TEA_SHOP_PAUSE\n", "Default: sqlite:data/tea-shop.db. Environment: MILLRACE_STORE\n", "MILLRACE_ADMIN\n"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
	if strings.Contains(help.String(), "hunter2") || strings.Contains(help.String(), "  -addr ") {
		t.Errorf("the help shows a secret, or a flag of another verb:\n%s", help)
	}
}

// Faults of a program itself are told, all at once.
func TestFaultsOfAProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program host.Program
		args    []string
		code    int
		wants   []string
	}{
		"no name":      {program: host.Program{Web: web}, code: host.ExitError, wants: []string{"program: ", `Program.Name is ""`, "Program.Routes is nil"}},
		"name":         {program: host.Program{Name: "My Shop"}, code: host.ExitError, wants: []string{`Program.Name is "My Shop"; want 1 to 40 lower-case letters`}},
		"routes":       {program: host.Program{Name: "shop", Register: register, Web: web, Routes: func() (*channel.Routes, error) { return channel.NewRoutes(channel.Command[order]("Q")) }}, args: []string{"-addr=127.0.0.1:0"}, code: host.ExitError, wants: []string{"shop: ", "test.order.v1"}},
		"taken flags":  {program: host.Program{Name: "shop", Routes: routes, Web: web, Flags: func(f *host.Flags) { f.Int("store", 1, 0, 2, ""); f.Bool("log", true, ""); f.String("addr", "", "") }}, code: host.ExitUsage, wants: []string{"-store is defined twice", "-addr is defined twice", "-log is defined twice"}},
		"nothing":      {program: host.Program{Name: "shop"}, code: host.ExitUsage, wants: []string{"shop\n\n", "shop version"}},
		"unknown verb": {program: shop(), args: []string{"sell"}, code: host.ExitUsage, wants: []string{`shop: unknown verb "sell". Run shop help`}},
		"secret verb":  {program: shop(), args: []string{"azure:AccountKey=hunter2"}, code: host.ExitUsage, wants: []string{"unknown verb (24 bytes, not shown"}},
		"no web":       {program: host.Program{Name: "shop", Routes: routes, Register: register}, args: []string{"web"}, code: host.ExitUsage, wants: []string{`unknown verb "web"`}},
	} {
		out := newOutput()
		code := host.Run(t.Context(), host.Process{Args: c.args, Stdout: out, Stderr: out}, c.program)
		if code != c.code {
			t.Errorf("%s: got exit code %d, want %d", name, code, c.code)
		}
		wantOrder(t, out.String(), c.wants...)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"shop 1.2.3 (go":               {"version"},
		"Sells tea.\n\n  shop      ":   {"help"},
		"Usage: shop [flags]":          {"-help"},
		"Usage: shop web [flags]":      {"web", "-h"},
		"  shop version  prints the v": {"--help"},
	} {
		p := shop()
		p.About, p.Version = "Sells tea.", "1.2.3"
		var out bytes.Buffer
		if code := host.Run(t.Context(), host.Process{Args: args, Stdout: &out}, p); code != host.ExitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%q: got exit code %d and\n%s\nwant 0 and %q", args, code, &out, want)
		}
	}
}

// The summary counts the commands that were handled, or sent where no worker runs.
func TestSummary(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"for 1 command handled: ": {"worker", "-admin=off"},
		"for 1 command sent: ":    {"web", "-addr=127.0.0.1:0"},
	} {
		p := shop()
		handled := make(chan struct{}, 1)
		p.Register = func(h *handlers.Registry) error {
			handlers.React(h, "orders", func(context.Context, order) error { handled <- struct{}{}; return nil })
			return nil
		}
		p.Start = func(ctx context.Context, a *host.App) error { return a.Channels.Send(ctx, order{"tea"}) }
		r := start(t, p, args...)
		if slices.Contains(args, "worker") {
			<-handled
		} else {
			r.url(t)
		}
		if code := r.end(); code != host.ExitOK || !strings.Contains(r.String(), want) {
			t.Errorf("got exit code %d and\n%s\nwant 0 and %q", code, r, want)
		}
	}
}

// A program that only reads a view registers it nowhere. Its web is refused at start nonetheless where the view has a
// name that the framework keeps, with the same text as a registration.
func TestAViewThatIsOnlyReadIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	p := host.Program{
		Name:   "shop",
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes() },
		Web: func(a *host.App) (http.Handler, error) {
			v := views.New(a.Channels, "settings", views.Config[int]{})
			return v.Handler(func(r *http.Request) string { return r.URL.Path }, nil), nil
		},
	}
	r := start(t, p, "-addr=127.0.0.1:0")
	got := r.line(t, "the framework keeps this name for itself; choose one that is none of claims, counters, ")
	if code := <-r.code; code != 1 || !strings.Contains(got, `values: collection "settings": `) {
		t.Errorf("got code %d and %q; want 1, and the collection's name", code, got)
	}
}
