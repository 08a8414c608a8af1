package host_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/settings"
)

// calm are the stages of the tests. Few calls are enough.
var calm = []settings.Stage{{Percent: 50, Bake: time.Hour, Calls: 10}, {Percent: 100, Bake: time.Hour, Calls: 10}}

// newStaged returns a shop whose changes come in stages. Its handlers fail with 13 seats.
func newStaged(cfg settings.Config) *lively {
	l := newLively()
	var live *settings.Settings[tuned]
	l.Start = func(ctx context.Context, a *host.App) (err error) {
		live, err = host.Settings(ctx, a, tuned{Seats: 40}, cfg)
		l.apps <- a
		l.settings <- live
		return err
	}
	l.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(context.Context, order) error {
			if live.Now().Seats == 13 {
				return errors.New("nobody sits at a table of thirteen")
			}
			return nil
		})
		return nil
	}
	return l
}

// rolled waits until a change has ended, and returns how.
func rolled(t *testing.T, a *host.App, version int64) settings.Ending {
	t.Helper()
	l, err := settings.At(a.Store, "shop")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := l.Await(ctx, version)
	if err != nil && !errors.Is(err, settings.ErrRolledBack) {
		t.Fatal(err)
	}
	return e
}

// A worker whose handlers fail with a change has it taken back, by what it counts anyway. The status tells why.
func TestAChangeThatMakesHandlersFailIsTakenBack(t *testing.T) {
	t.Parallel()
	l := newStaged(settings.Config{Stages: calm})
	r := start(t, l.Program, "worker", "-admin=off", "-bake=1s")
	app, own := <-l.apps, <-l.settings
	runs := make(chan int, 9)
	own.Changed(func(_, to tuned) { runs <- to.Seats })
	set(t, r, l.Program, "seats=13")
	worldtest.Want(t, "seats of the stage", <-runs, 13)
	if err := app.Channels.Send(t.Context(), orders(20)...); err != nil {
		t.Fatal(err)
	}
	e := rolled(t, app, 1)
	worldtest.Want(t, "the end", e.Result, settings.RolledBack)
	worldtest.Want(t, "seats after it", <-runs, 40)
	if _, out := operate(t, r, l.Program, "settings", "status", "--reveal", "--why", "test"); !strings.Contains(out, "calls failed") {
		t.Errorf("the status doesn't tell why:\n%s", out)
	}
}

// A program's own Health takes a change back. A change with which it is well comes into force after its stages.
func TestTheOwnHealthOfAProgram(t *testing.T) {
	t.Parallel()
	var own *settings.Settings[tuned]
	ready := make(chan struct{})
	l := newStaged(settings.Config{Health: func(context.Context) error {
		if <-ready; own.Now().Seats == 14 {
			return errors.New("the tables don't fit")
		}
		return nil
	}})
	l.Register = nil // a web alone counts no calls, so it waits for none
	r := start(t, l.Program, "-addr=127.0.0.1:0", "-bake=1s")
	app := <-l.apps
	own = <-l.settings
	close(ready)
	operate(t, r, l.Program, "settings", "set", "seats=14") // it may be taken back before that ends
	e := rolled(t, app, 1)
	if e.Result != settings.RolledBack || !strings.Contains(fmt.Sprint(e.Reasons), "the tables don't fit") {
		t.Errorf("got %+v", e)
	}
	set(t, r, l.Program, "seats=15")
	worldtest.Want(t, "the end", rolled(t, app, 2).Result, settings.InForce)
}

// A bake that can't be right, or that nothing needs, is told at once.
func TestABadBake(t *testing.T) {
	t.Parallel()
	l := newStaged(settings.Config{})
	plain := shop()
	plain.Start = func(context.Context, *host.App) error { return nil }
	for _, c := range []struct {
		program    host.Program
		bake, want string
	}{
		{l.Program, "1ms", "-bake: want 0, or a time from 1s to 168h"},
		{l.Program, "-5s", "want a time from 0s to 168h"},
		{l.Program, "1000h", "want a time from 0s to 168h"},
		{plain, "1s", "-bake: this program has no settings that change while it runs"},
	} {
		out := newOutput()
		args := []string{"worker", "-admin=off", "-bake=" + c.bake, "-store=sqlite:" + filepath.Join(t.TempDir(), "shop.db")}
		if code := host.Run(t.Context(), host.Process{Args: args, Stdout: out, Stderr: out}, c.program); code != host.ExitUsage || !strings.Contains(out.String(), c.want) {
			t.Errorf("-bake %s: got exit code %d and %s, want %q", c.bake, code, out, c.want)
		}
	}
}
