package host

import (
	"context"

	"github.com/millrace-go/millrace/ops/alert"
)

// addAlerts adds the loop that tells people what is wrong with the store, if the program has a hook for that. The loop
// stops before what the hook may send by.
func (s *service) addAlerts(a *App) {
	if s.Alert == nil {
		return
	}
	hook := s.Alert(a)
	if hook == nil {
		return
	}
	cfg := alert.Config{Store: a.plain, Name: s.Name, Hook: hook, Command: s.command, File: s.settings.File(), Logger: a.Log, Metrics: a.Metrics}
	a.Go("alerts", func(ctx context.Context) error { return alert.Run(ctx, cfg) })
}
