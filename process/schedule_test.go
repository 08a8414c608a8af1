package process_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/schedule"
)

// nightly is the state of a process that a schedule starts.
type nightly struct {
	Day string         `json:"day"`
	Run schedule.RunID `json:"run"`
}

// A schedule starts an instance for each due time, and leaves a due time out while the instance before is at work: its
// end is the end of the run.
func TestScheduleStartsProcesses(t *testing.T) {
	t.Parallel()
	var days []string
	plan := func(p *process.Plan[nightly]) {
		process.Do(p, "export", func(_ context.Context, n nightly) (struct{}, error) {
			days = append(days, n.Day)
			return struct{}{}, nil
		}, nil)
		process.Sleep(p, "let it cool down", 30*time.Hour)
		process.Ended(p, func(x process.Snapshot[nightly]) schedule.Done { return schedule.Done{Run: x.State.Run} })
	}
	program := millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(process.Route("export"), schedule.Route())
		},
		Register: func(h *handlers.Registry) error {
			exports := process.Open[nightly](h.Channels(), "export")
			schedule.Every(h, "nightly", schedule.Cron("0 3 * * *", "UTC"), func(t schedule.Tick) channel.Message {
				day := t.Due.Format(time.DateOnly)
				return exports.Starting(day, nightly{day, t.Run})
			}, schedule.Config{Overlap: schedule.Skip, Longest: 48 * time.Hour})
			return process.Register(h, "export", process.Version(1, plan))
		},
	}
	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
		app.Advance(4 * 24 * time.Hour)
		if got, want := fmt.Sprint(days), "[2000-01-01 2000-01-03]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
