package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// Sweep asks somebody to clean up.
type Sweep struct {
	Until time.Time      `json:"until"`
	Run   schedule.RunID `json:"run"`
}

func (Sweep) Kind() channel.Kind { return "shop.sweep.v1" }

// A program sweeps each second, and never twice at a time.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(schedule.Route(), channel.Command[Sweep]("sweeps"))
	channels, _ := channel.New(store, routes, "/shop")

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	schedule.Every(h, "sweep", schedule.Interval(time.Second), func(t schedule.Tick) Sweep {
		return Sweep{Until: t.Due, Run: t.Run}
	}, schedule.Config{Overlap: schedule.Skip})
	swept := make(chan time.Time, 1000)
	handlers.React(h, "sweeps", func(ctx context.Context, m Sweep) error {
		swept <- m.Until
		return channel.Send(ctx, schedule.Done{Run: m.Run})
	})
	w, _ := worker.New(h, worker.Config{})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	first, second := <-swept, <-swept
	fmt.Println("in order:", first.Before(second))
	sweep := schedule.At(store, "sweep")
	_, err := sweep.Pause(ctx, schedule.Note{By: "ada", Why: "the broom is broken"})
	fmt.Println("a worker is to pause it:", err == nil)
	info, _ := sweep.Info(ctx)
	fmt.Println(info.Spec, "by", info.Program)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// in order: true
	// a worker is to pause it: true
	// every 1s by /shop
	// <nil>
}

// The clocks of Berlin leave out the hour from two to three on 29 March, and show it twice on 25 October.
func ExampleCron() {
	spec := schedule.Cron("30 2 * * *", "Europe/Berlin")
	for _, day := range []time.Time{time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)} {
		for t := spec.Next(day); t.Before(day.AddDate(0, 0, 3)); t = spec.Next(t) {
			fmt.Println(t.Format("Jan 2 15:04 MST"))
		}
	}
	// Output:
	// Mar 28 02:30 CET
	// Mar 29 03:00 CEST
	// Mar 30 02:30 CEST
	// Oct 24 02:30 CEST
	// Oct 25 02:30 CEST
	// Oct 26 02:30 CET
}

// A spec that can't be used says why. Every reports it, too, and the program doesn't start.
func ExampleSpec_Err() {
	fmt.Println(schedule.Cron("0 0 30 2 *", "Europe/Berlin").Err())
	fmt.Println(schedule.Interval(time.Millisecond).Err())
	// Output:
	// the expression "0 0 30 2 *": it is never due
	// the interval is "1ms"; want whole seconds, at least one, and at most ten years
}
