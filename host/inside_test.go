package host

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/worker"
)

type command struct{ X int }

func (command) Kind() channel.Kind { return "test.command.v1" }

type event struct{ X int }

func (event) Kind() channel.Kind { return "test.event.v1" }

// -active and -concurrency fill in what the program has left open. The program's own value doesn't change.
func TestWorkerConfig(t *testing.T) {
	t.Parallel()
	always := worker.Limiters()
	own := worker.Config{Concurrency: 3, MaxAttempts: 9, Queues: map[string]worker.QueueConfig{"mails": {Limiter: always}, "bills": {Concurrency: 2}}}
	for _, c := range []struct {
		active, concurrency, want int
		limiters                  []string
	}{
		{want: 3, limiters: []string{"mails"}},
		{active: 1, concurrency: 7, want: 7, limiters: []string{"bills", "mails", "orders"}},
	} {
		s := &service{Program: Program{Worker: own}, active: &c.active, concurrency: &c.concurrency}
		got := s.workerConfig(&App{}, []string{"bills", "mails", "orders"})
		var limiters []string
		for name, q := range got.Queues {
			if q.Limiter == nil {
				t.Errorf("-active %d: an operator can't pause queue %s", c.active, name)
			}
			if s.limiter(own.Queues[name]) != nil {
				limiters = append(limiters, name)
			}
		}
		slices.Sort(limiters)
		if !slices.Equal(limiters, c.limiters) || got.Concurrency != c.want || got.MaxAttempts != 9 || got.Queues["bills"].Concurrency != 2 {
			t.Errorf("-active %d: got %+v, want limiters for %q and concurrency %d", c.active, got, c.limiters, c.want)
		}
	}
	if len(own.Queues) != 2 || own.Queues["bills"].Limiter != nil {
		t.Errorf("the program's own settings have changed: %+v", own)
	}
}

func TestCommandQueues(t *testing.T) {
	t.Parallel()
	routes, err := channel.NewRoutes(channel.Command[command]("orders"), channel.Event[event]("mails"), schedule.Route())
	if err != nil {
		t.Fatal(err)
	}
	if got := commandQueues(routes, []string{"mails", "orders", schedule.QueueName}); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("got %q, want orders", got)
	}
}

func TestBuildVersion(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":             {Main: debug.Module{Version: "v1.2.3"}, Settings: vcs},
		"0123456789ab+dirty": {Main: debug.Module{Version: "(devel)"}, Settings: vcs},
		"0123456789ab":       {Settings: vcs[:1]},
		"devel":              {},
	} {
		if got := buildVersion(&info); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
