package main

import (
	"context"
	"slices"

	"github.com/hibiken/asynq"
)

const taskType = "job"

type asynqClient struct {
	at        asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(_ context.Context, place string) (contestant, error) {
	at := asynq.RedisClientOpt{Network: "unix", Addr: place}
	return &asynqClient{at, asynq.NewClient(at), asynq.NewInspector(at)}, nil
}

func (c *asynqClient) Send(ctx context.Context, job int) error {
	body, err := encode(job)
	if err != nil {
		return err
	}
	_, err = c.client.EnqueueContext(ctx, asynq.NewTask(taskType, body))
	return err
}

func (c *asynqClient) Start(_ context.Context, do doFunc) error {
	client := newClient(newTransport())
	return asynq.NewServer(c.at, asynq.Config{LogLevel: asynq.FatalLevel}).Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		job, err := decode(t.Payload())
		if err != nil {
			return err
		}
		return do(ctx, client, job)
	}))
}

func (c *asynqClient) Dead(context.Context) (int, error) {
	const queue = "default"
	if all, err := c.inspector.Queues(); err != nil || !slices.Contains(all, queue) { // no job was sent yet
		return 0, err
	}
	info, err := c.inspector.GetQueueInfo(queue)
	if err != nil {
		return 0, err
	}
	return info.Archived, nil
}
