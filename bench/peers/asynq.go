package main

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/millrace-go/millrace/bench/peers/child"
)

const taskType = "job"

type asynqClient struct {
	at     asynq.RedisClientOpt
	config asynq.Config
	client *asynq.Client
}

func openAsynq(tuned bool) openFunc {
	return func(_ context.Context, spec child.Spec) (child.Client, error) {
		c := &asynqClient{at: asynq.RedisClientOpt{Network: "unix", Addr: spec.Addr}, config: asynq.Config{LogLevel: asynq.FatalLevel}}
		if tuned {
			c.at.PoolSize = 64
			c.config.Concurrency, c.config.TaskCheckInterval = 64, time.Millisecond
		}
		c.client = asynq.NewClient(c.at)
		return c, nil
	}
}

func (c *asynqClient) Send(ctx context.Context, j child.Job) error {
	body, err := json.Marshal(j)
	if err != nil {
		return err
	}
	_, err = c.client.EnqueueContext(ctx, asynq.NewTask(taskType, body))
	return err
}

// Fill sends from several goroutines, because Asynq has no call for many jobs.
func (c *asynqClient) Fill(ctx context.Context, jobs []child.Job) error {
	var (
		next  atomic.Int64
		all   sync.WaitGroup
		first atomic.Pointer[error]
	)
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(len(jobs)) && first.Load() == nil; i = next.Add(1) {
				if err := c.Send(ctx, jobs[i-1]); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *asynqClient) Start(_ context.Context, handle func(child.Job)) error {
	return asynq.NewServer(c.at, c.config).Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var j child.Job
		if err := json.Unmarshal(t.Payload(), &j); err != nil {
			return err
		}
		handle(j)
		return nil
	}))
}

func (c *asynqClient) Operations(ctx context.Context) (int64, error) {
	return redisInfo(ctx, c.at.Addr, "total_commands_processed")
}

// Memory implements child.Sized.
func (c *asynqClient) Memory(ctx context.Context) (int64, error) {
	return redisInfo(ctx, c.at.Addr, usedMemory)
}
