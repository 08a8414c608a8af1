package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage"
)

// Job is a message of the backlog.
type Job struct {
	ID int `json:"id"`
}

// Kind names the type of the message.
func (Job) Kind() channel.Kind { return "gate.job.v1" }

// table has a row for each job that was numbered.
const table = "numbered"

// Numbered is such a row.
type Numbered struct {
	Number int64     `json:"number"`
	Worker string    `json:"worker"`
	Began  time.Time `json:"began"` // by the worker's clock
}

// A hound is one worker.
type hound struct {
	name    *string
	numbers *ids.Sequence
	done    *storage.Table
}

// number gives a job its number. A job may come twice, when a worker was killed. It keeps the number that it has, and
// the other number stays unused.
func (h *hound) number(ctx context.Context, j Job) error {
	began := time.Now()
	n, err := h.numbers.Next(ctx)
	if err != nil {
		return err // tried again
	}
	row, err := json.Marshal(Numbered{Number: n, Worker: *h.name, Began: began})
	if err != nil {
		return err
	}
	_, err = h.done.Put(ctx, "jobs", fmt.Sprintf("%08d", j.ID), row, storage.Condition{IfAbsent: true})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}
