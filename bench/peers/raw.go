package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/raw"
)

// queue is the raw limit of a queue on SQLite.
type queue struct{ q *raw.Queue }

func openQueue(way func(ctx context.Context, path string) (*raw.Queue, error)) func(context.Context, child.Spec) (child.Client, error) {
	return func(ctx context.Context, spec child.Spec) (child.Client, error) {
		q, err := way(ctx, filepath.Join(spec.Dir, "raw.db"))
		return queue{q}, err
	}
}

func (c queue) Send(ctx context.Context, j child.Job) error { return c.Fill(ctx, []child.Job{j}) }

func (c queue) Fill(_ context.Context, jobs []child.Job) error {
	bodies := make([][]byte, len(jobs))
	for i, j := range jobs {
		body, err := json.Marshal(j)
		if err != nil {
			return err
		}
		bodies[i] = body
	}
	return c.q.Send(bodies...)
}

func (c queue) Start(ctx context.Context, handle func(child.Job)) error {
	go func() {
		child.Fail(ctx, c.q.Consume(ctx, func(body []byte) error {
			var j child.Job
			if err := json.Unmarshal(body, &j); err != nil {
				return err
			}
			handle(j)
			return nil
		}))
	}()
	return nil
}

func (c queue) Operations(context.Context) (int64, error) { return c.q.Calls(), nil }

// disk is the raw limit of everything that syncs.
type disk struct {
	mu sync.Mutex
	d  *raw.Disk // under mu
}

func openDisk(_ context.Context, spec child.Spec) (child.Client, error) {
	d, err := raw.OpenDisk(filepath.Join(spec.Dir, "disk"))
	return &disk{d: d}, err
}

func (c *disk) Send(context.Context, child.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.d.Overwrite()
}

var errDisk = errors.New("a disk handles no jobs")

func (c *disk) Fill(context.Context, []child.Job) error      { return errDisk }
func (c *disk) Start(context.Context, func(child.Job)) error { return errDisk }
func (c *disk) Operations(context.Context) (int64, error)    { return child.Unknown, nil }
