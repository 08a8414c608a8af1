// Command clock is a worker whose wall clock can be set. TestClockIsSet builds it with a package time that has Stepped.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// Task is a message whose effect comes at once, or when the process is told to finish.
type Task struct{ ID string }

// Kind and MessageID implement channel.Message and channel.Identified.
func (Task) Kind() channel.Kind { return "clock.task.v1" }

func (t Task) MessageID() string { return t.ID }

type program struct {
	store    *storage.Store
	send     *channel.Sender[Task]
	registry *handlers.Registry
	finish   chan struct{}
}

func main() {
	ctx := context.Background()
	p, err := open(ctx, os.Args[1])
	for in := bufio.NewScanner(os.Stdin); err == nil && in.Scan(); {
		verb, args, _ := strings.Cut(in.Text(), " ")
		err = p.do(ctx, verb, strings.Fields(args))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func open(ctx context.Context, path string) (*program, error) {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	routes, err := channel.NewRoutes(channel.Event[Task]("tasks"))
	if err != nil {
		return nil, err
	}
	channels, err := channel.New(store, routes, "/clock")
	if err != nil {
		return nil, err
	}
	p := &program{store: store, finish: make(chan struct{})}
	if p.send, err = channel.NewSender[Task](channels); err != nil {
		return nil, err
	}
	p.registry = handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.ReactOnce(p.registry, "tasks", func(ctx context.Context, t Task) error {
		fmt.Println("began", t.ID)
		if t.ID == "slow" {
			select {
			case <-p.finish:
			case <-ctx.Done():
				fmt.Println("cut off:", context.Cause(ctx))
				return context.Cause(ctx)
			}
		}
		fmt.Println("effect", t.ID)
		return nil
	})
	return p, nil
}

func (p *program) do(ctx context.Context, verb string, args []string) error {
	q := p.store.Queue("claims")
	switch verb {
	case "step": // the wall clock, by seconds
		seconds, err := strconv.ParseInt(args[0], 10, 64)
		time.Stepped += seconds
		fmt.Println("stepped")
		return err
	case "work":
		log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn}))
		w, err := worker.New(p.registry, worker.Config{Concurrency: 1, MaxInHand: 1, Visibility: 3 * time.Second, StuckAfter: time.Minute, Logger: log})
		if err == nil {
			go w.Run(ctx)
			fmt.Println("working")
		}
		return err
	case "daily": // a worker with a schedule that is due at a second, a minute and an hour; it has begun when it has answered
		return p.daily(ctx, strings.Join(args, " "))
	case "send":
		var tasks []Task
		for _, id := range args {
			tasks = append(tasks, Task{id})
		}
		return p.send.Send(ctx, tasks...)
	case "finish":
		close(p.finish)
	case "hold": // sends a message, receives it, and holds it for so long
		visibility, err := time.ParseDuration(args[0])
		if err == nil {
			err = q.Send(ctx, []storage.Message{{}})
		}
		if err != nil {
			return err
		}
		return receive(ctx, q, visibility)
	case "look":
		return receive(ctx, q, time.Minute)
	case "wait": // until a message is there
		sub := p.store.Listen("claims")
		defer sub.Close()
		for {
			<-sub.Rings()
			got, err := q.Receive(ctx, 1, time.Minute)
			if err != nil || len(got) > 0 {
				fmt.Println("found", len(got))
				return err
			}
		}
	}
	return nil
}

// Day is the command of the schedule.
type Day struct{ Due time.Time }

// Kind implements channel.Message.
func (Day) Kind() channel.Kind { return "clock.day.v1" }

func (p *program) daily(ctx context.Context, at string) error {
	routes, err := channel.NewRoutes(schedule.Route(), channel.Command[Day]("days"))
	if err != nil {
		return err
	}
	channels, err := channel.New(p.store, routes, "/clock")
	if err != nil {
		return err
	}
	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	schedule.Every(h, "daily", schedule.Cron(at+" * * *", "UTC"), func(t schedule.Tick) Day { return Day{t.Due} }, schedule.Config{})
	handlers.React(h, "days", func(context.Context, Day) error {
		fmt.Println("ran")
		return nil
	})
	w, err := worker.New(h, worker.Config{})
	if err != nil {
		return err
	}
	go w.Run(ctx)
	for look := time.NewTicker(10 * time.Millisecond); ; <-look.C {
		if _, err := schedule.At(p.store, "daily").Info(ctx); !errors.Is(err, schedule.ErrUnknown) {
			fmt.Println("registered")
			return err
		}
	}
}

func receive(ctx context.Context, q *storage.Queue, visibility time.Duration) error {
	got, err := q.Receive(ctx, 10, visibility)
	fmt.Println("found", len(got))
	return err
}
