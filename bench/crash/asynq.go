package main

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/millrace-go/millrace/bench/servers"
)

const taskType = "job"

func asynqSystem() system {
	at := func(socket string, trial int) asynq.RedisClientOpt {
		return asynq.RedisClientOpt{Network: "unix", Addr: socket, DB: trial}
	}
	return system{
		name:     "asynq",
		settings: func(settings) string { return "Redis, all defaults" },
		start: func(ctx context.Context, dir string) (string, func(), error) {
			s, err := servers.Redis(ctx, dir)
			if err != nil {
				return "", nil, err
			}
			return s.Socket, s.Stop, nil
		},
		enqueue: func(ctx context.Context, socket string, trial int, ids []string) error {
			client := asynq.NewClient(at(socket, trial))
			defer func() { _ = client.Close() }()
			for _, id := range ids {
				if _, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, []byte(id))); err != nil {
					return err
				}
			}
			return nil
		},
		work: func(ctx context.Context, socket string, trial int, _ settings, run func(context.Context, string)) error {
			server := asynq.NewServer(at(socket, trial), asynq.Config{Concurrency: 2 * jobs, LogLevel: asynq.FatalLevel})
			err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
				run(ctx, string(t.Payload()))
				return ctx.Err()
			}))
			if err != nil {
				return err
			}
			<-ctx.Done()
			server.Shutdown()
			return nil
		},
	}
}
