package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/throttle"
)

// tuned are the live settings of a shop.
type tuned struct {
	host.Live
	Seats int `json:"seats"`
}

func (s tuned) Check() error {
	if s.Seats < 0 {
		return errors.New("seats: want a positive number")
	}
	return nil
}

// A lively shop has live settings, and handlers that run until the test ends them.
type lively struct {
	host.Program
	apps     chan *host.App
	settings chan *settings.Settings[tuned]
	begun    chan struct{} // for each handler that begins
	finish   chan struct{} // ends a handler
}

func newLively() *lively {
	l := &lively{Program: shop(), apps: make(chan *host.App, 9), settings: make(chan *settings.Settings[tuned], 9), begun: make(chan struct{}, 99), finish: make(chan struct{}, 99)}
	l.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(ctx context.Context, _ order) error {
			l.begun <- struct{}{}
			select {
			case <-l.finish:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return nil
	}
	l.Start = func(ctx context.Context, a *host.App) error {
		s, err := host.Settings(ctx, a, tuned{Seats: 40}, settings.Config{})
		l.apps <- a
		l.settings <- s
		return err
	}
	return l
}

// operate runs an operator's verb on the store of a run.
func operate(t *testing.T, r *run, p host.Program, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	args = append(args, "-store=sqlite:"+filepath.Join(r.dir, "shop.db"))
	code = host.Run(t.Context(), host.Process{Args: args, Stdout: &out, Stderr: &out}, p)
	return code, out.String()
}

// set changes settings, and checks that the program agrees.
func set(t *testing.T, r *run, p host.Program, args ...string) {
	t.Helper()
	if code, out := operate(t, r, p, append([]string{"settings", "set"}, args...)...); code != host.ExitOK {
		t.Fatalf("set %q: got exit code %d and %s", args, code, out)
	}
}

// A change of settings reaches the log, the workers and the program's own code without a restart. A queue's concurrency
// grows at once, and shrinks as handlers end; none is cut off.
func TestSettingsApplyWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	l := newLively()
	r := start(t, l.Program, "worker", "-admin=off", "-concurrency=1")
	app, own := <-l.apps, <-l.settings
	worldtest.Want(t, "own setting", own.Now().Seats, 40)
	if err := app.Channels.Send(t.Context(), orders(8)...); err != nil {
		t.Fatal(err)
	}
	<-l.begun
	worldtest.Want(t, "handlers beyond -concurrency", len(l.begun), 0)

	set(t, r, l.Program, "log=debug") // so that the next change is logged
	set(t, r, l.Program, "queues.orders.concurrency=3", "queues.orders.poll=7s", "seats=60", "-by=ada", "-why=Black Friday")
	for range 2 {
		<-l.begun
	}
	line := r.line(t, `"the limits of a queue change"`)
	worldtest.Want(t, "limits", strings.Contains(line, `"concurrency":3`) && strings.Contains(line, `"poll_interval":"7s"`), true)
	worldtest.Want(t, "own setting", own.Now().Seats, 60)
	_, shown := operate(t, r, l.Program, "settings", "show")
	for _, want := range []string{`"log": "debug"`, `"seats": 60`, `"concurrency": 3`, `"poll": "7s"`, "by ada", "Black Friday"} {
		if !strings.Contains(shown, want) {
			t.Errorf("settings show doesn't say %s:\n%s", want, shown)
		}
	}

	if _, out := operate(t, r, l.Program, "settings", "status"); !strings.Contains(out, "worker@") || !strings.Contains(out, fmt.Sprintf("-%d ", os.Getpid())) {
		t.Errorf("settings status doesn't say that it is a worker, and which process:\n%s", out)
	}
	families, err := app.Metrics.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	version := 0.0
	for _, f := range families {
		if f.GetName() == "millrace_settings_version" {
			version = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	worldtest.Want(t, "the version, as a metric", version, 2)

	set(t, r, l.Program, "queues.orders.concurrency=2")
	r.line(t, `"pause":false,"concurrency":2`)
	l.finish <- struct{}{} // one of three
	l.finish <- struct{}{} // one of two: another begins in its place
	<-l.begun
	worldtest.Want(t, "handlers beyond the setting", len(l.begun), 0)

	set(t, r, l.Program, "-default=queues.orders.concurrency")
	r.line(t, `"pause":false,"concurrency":1,`)
	for range 7 {
		l.finish <- struct{}{}
	}
	for range 4 {
		<-l.begun
	}
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
	_, status := operate(t, r, l.Program, "settings", "status")
	worldtest.Want(t, "node listed after the stop", strings.Contains(status, "No program"), true)
}

// A setting that can't be right is refused, with the reason, before anything of the change applies.
func TestABadSettingIsRefused(t *testing.T) {
	t.Parallel()
	l := newLively()
	r := start(t, l.Program, "worker", "-admin=off")
	<-l.apps
	own := <-l.settings
	for _, c := range []struct{ bad, want string }{
		{"queues.orders.concurrency=-1", "want 1 to 10000"},
		{"queues.orders.concurrency=10001", "want 1 to 10000"},
		{"queues.order.concurrency=5", `the program has no queue "order"; want one of orders`},
		{"queues.orders.poll=1ms", "want a time from 20ms to 24h"},
		{"queues.orders.poll=-1s", "want a time from 20ms to 24h"},
		{"queues.orders.poll=soon", "want a time from 20ms to 24h"},
		{"queues.orders.poll=5", "a time has its unit, such as 5s"},
		{"queues.orders.limit=5", "limit"},
		{"level=4", "the level is 4; want 0 to 3"},
		{"level=-1", "the level is -1; want 0 to 3"},
		{"log=loud", "want debug, info, warn or error"},
		{"seats=-1", "seats: want a positive number"},
		{"tables=4", "tables"},
	} {
		args := []string{"settings", "set", c.bad}
		if !strings.HasPrefix(c.bad, "seats=") {
			args = append(args, "seats=41")
		}
		if code, out := operate(t, r, l.Program, args...); code != host.ExitError || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit code %d and %s, want %q", c.bad, code, out, c.want)
		}
	}
	worldtest.Want(t, "seats", own.Now().Seats, 40)

	// A forced change holds, but for the part that the host can't use.
	set(t, r, l.Program, "queues.order.concurrency=5", "seats=42", "-force")
	r.line(t, "settings in force can't be used by this program")
	set(t, r, l.Program, "-default=queues.order", "log=error")
	worldtest.Want(t, "seats", own.Now().Seats, 42)
}

// At a level, the queues that are optional from it on wait, and the others don't. Nothing is lost.
func TestAnOptionalQueueWaitsByTheSettings(t *testing.T) {
	t.Parallel()
	l := newLively()
	register := l.Register
	l.Register = func(h *handlers.Registry) error {
		handlers.Optional(h, "orders", 2)
		return register(h)
	}
	r := start(t, l.Program, "worker", "-admin=off")
	app := <-l.apps
	set(t, r, l.Program, "level=2")
	r.line(t, `"queue is optional at this level, and waits"`)
	r.line(t, `"queue is paused: nothing is taken off it"`)
	worldtest.Want(t, "level", app.Level.Off(2) && !app.Level.Off(3), true)
	if err := app.Channels.Send(t.Context(), orders(1)...); err != nil {
		t.Fatal(err)
	}
	set(t, r, l.Program, "level=3")
	worldtest.Want(t, "handlers at level 3", len(l.begun), 0)
	set(t, r, l.Program, "level=1")
	<-l.begun
	l.finish <- struct{}{}
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
}

// While a queue is longer than its bound, the level is higher than the settings say, in the metrics, too.
func TestTheLevelFollowsAQueue(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	l := newLively()
	l.Raise = throttle.Raise{Bounds: []throttle.Bound{{Queue: "orders", Waiting: 100, Level: 2}}, Every: time.Second}
	r := start(t, l.Program, "worker", "-admin=off", "-concurrency=1")
	app := <-l.apps
	if err := app.Channels.Send(t.Context(), orders(300)...); err != nil {
		t.Fatal(err)
	}
	r.line(t, `"the level of what is left out follows the queues"`)
	worldtest.Want(t, "level", app.Level.Now(), 2)
	families, err := app.Metrics.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := -1.0
	for _, f := range families {
		if f.GetName() == "millrace_level" {
			shown = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	worldtest.Want(t, "the level in the metrics", shown, 2)
	for _, bad := range []throttle.Raise{{Bounds: []throttle.Bound{{Queue: "nothing", Waiting: 1}}}, {Bounds: []throttle.Bound{{Queue: "orders"}}}} {
		p := shop()
		p.Raise = bad
		r := start(t, p, "worker", "-admin=off")
		worldtest.Want(t, "exit code", <-r.code, host.ExitError)
		r.line(t, "host: Program.Raise")
	}
}

// A program that doesn't open settings makes no request for them.
func TestAProgramWithoutSettingsAsksForNone(t *testing.T) {
	t.Parallel()
	p, apps := shop(), make(chan *host.App, 1)
	p.Start = func(_ context.Context, a *host.App) error { apps <- a; return nil }
	r := start(t, p, "worker", "-admin=off")
	app := <-apps
	r.line(t, "worker consumes")
	ledger, err := settings.At(app.Store, "shop")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := ledger.Nodes(t.Context())
	worldtest.Want(t, "nodes", len(nodes), 0)
	worldtest.Want(t, "error", err, nil)
	code, out := operate(t, r, p, "settings", "set", "log=debug")
	worldtest.Want(t, "exit code", code, host.ExitError)
	worldtest.Want(t, "advice", strings.Contains(out, "no program that has these settings runs"), true)
}

// Two calls, and a pointer to Live, are mistakes of the program.
func TestSettingsThatCanNotBeOpened(t *testing.T) {
	t.Parallel()
	for want, open := range map[string]func(context.Context, *host.App) error{
		"want one struct with all settings": func(ctx context.Context, a *host.App) error {
			_, err := host.Settings(ctx, a, tuned{}, settings.Config{})
			_, again := host.Settings(ctx, a, tuned{}, settings.Config{})
			return errors.Join(err, again)
		},
		"want host.Live": func(ctx context.Context, a *host.App) error {
			_, err := host.Settings(ctx, a, struct{ *host.Live }{}, settings.Config{})
			return err
		},
		"Poll is 1ns": func(ctx context.Context, a *host.App) error {
			_, err := host.Settings(ctx, a, tuned{}, settings.Config{Poll: 1})
			return err
		},
	} {
		p := shop()
		p.Start = open
		r := start(t, p, "worker", "-admin=off")
		worldtest.Want(t, "exit code", <-r.code, host.ExitError)
		r.line(t, want)
	}
}

// A program that can't run what is in force names the command as it is typed.
func TestAProgramThatCanNotRunItsSettingsNamesItsCommand(t *testing.T) {
	t.Parallel()
	l := newLively()
	r := start(t, l.Program, "worker", "-admin=off")
	<-l.settings
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
	set(t, r, l.Program, "nonsense=1", "-force")
	out := newOutput()
	args := []string{"worker", "-admin=off", "-store=sqlite:" + filepath.Join(r.dir, "shop.db")}
	worldtest.Want(t, "exit code", host.Run(t.Context(), host.Process{Command: "shopd", Args: args, Stdout: out, Stderr: out}, l.Program), host.ExitError)
	if want := `go back by "shopd settings back --of shop"`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", out, want)
	}
}

func orders(n int) (all []channel.Message) {
	for range n {
		all = append(all, order{Item: "cup"})
	}
	return all
}
