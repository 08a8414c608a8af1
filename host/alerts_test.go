package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/alert"
)

// A program with a hook has a process that leads the alerts, and hands over when it stops. Without a hook nobody asks
// the store for anything.
func TestAlertsRunWhereThereIsAHook(t *testing.T) {
	t.Parallel()
	hook := func(context.Context, alert.Alert) error { return errors.New("nobody is there") }
	for name, c := range map[string]struct {
		alert func(*host.App) alert.Hook
		leads bool
	}{
		"none":   {nil, false},
		"no":     {func(*host.App) alert.Hook { return nil }, false},
		"a hook": {func(a *host.App) alert.Hook { worldtest.Want(t, "a worker", a.Worker, true); return hook }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shop()
			p.Alert = c.alert
			r := start(t, p, "worker", "-admin=off")
			if c.leads {
				r.line(t, "a leader's term begins")
			} else {
				r.line(t, "worker consumes")
			}
			worldtest.Want(t, "exit code", r.end(), host.ExitOK)
			who, err := leader.Current(t.Context(), worldtest.OpenAt(t, filepath.Join(r.dir, "shop.db")), "alerts/shop")
			worldtest.WantErr(t, err, nil)
			if who.Holder != "" || (who.Term == 1) != c.leads {
				t.Errorf("got %+v; want a term that is over: %v", who, c.leads)
			}
		})
	}
}
