package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
)

// onRedis opens a store on the server of a measurement.
func onRedis(ctx context.Context, spec child.Spec) (*storage.Store, error) {
	at := url.URL{Scheme: "redis+unix", Path: spec.Addr, RawQuery: "prefix=bench"}
	return redis.Open(ctx, at.String())
}

const usedMemory = "used_memory"

// redisInfo asks a server for a number that it tells of itself.
func redisInfo(ctx context.Context, socket, name string) (n int64, err error) {
	if socket == "" {
		return child.Unknown, nil
	}
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket})
	defer func() { err = errors.Join(err, c.Close()) }()
	info, err := c.Info(ctx).Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(value, 10, 64)
}

// driverAlone is Millrace's driver without anything above it: one goroutine receives and deletes.
type driverAlone struct {
	server string
	store  *storage.Store
	queue  *storage.Queue
}

func openDriver(ctx context.Context, spec child.Spec) (child.Client, error) {
	s, err := onRedis(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &driverAlone{spec.Addr, s, s.Queue("jobs")}, nil
}

func (d *driverAlone) Send(ctx context.Context, j child.Job) error {
	return d.Fill(ctx, []child.Job{j})
}

func (d *driverAlone) Fill(ctx context.Context, jobs []child.Job) error {
	all := make([]storage.Message, len(jobs))
	for i, j := range jobs {
		body, err := json.Marshal(j)
		if err != nil {
			return err
		}
		all[i].Body = body
	}
	return d.queue.Send(ctx, all)
}

func (d *driverAlone) Start(ctx context.Context, handle func(child.Job)) error {
	rings := d.store.Listen("jobs")
	go func() {
		defer rings.Close()
		child.Fail(ctx, d.consume(ctx, rings.Rings(), handle))
	}()
	return nil
}

func (d *driverAlone) consume(ctx context.Context, rings <-chan struct{}, handle func(child.Job)) error {
	for {
		got, err := d.queue.Receive(ctx, d.store.Props().MaxReceive, time.Minute)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			select {
			case <-rings:
			case <-time.After(d.store.Props().PollInterval):
			case <-ctx.Done():
				return nil
			}
			continue
		}
		receipts := make([]storage.Receipt, len(got))
		for i, x := range got {
			var j child.Job
			if err := json.Unmarshal(x.Body, &j); err != nil {
				return fmt.Errorf("job %s: %w", x.Body, err)
			}
			handle(j)
			receipts[i] = x.Receipt
		}
		if err := d.queue.Delete(ctx, receipts); err != nil {
			return err
		}
	}
}

func (d *driverAlone) Operations(ctx context.Context) (int64, error) {
	return redisInfo(ctx, d.server, "total_commands_processed")
}

// Memory implements child.Sized.
func (d *driverAlone) Memory(ctx context.Context) (int64, error) {
	return redisInfo(ctx, d.server, usedMemory)
}
