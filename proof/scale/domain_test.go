package scale

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The domain: a command adds one to its key's value object, whose event adds one to its key's view.

type count struct {
	ID  string `json:"id"`
	N   int    `json:"n"` // the number of the command
	Key string `json:"key"`
}

func (count) Kind() channel.Kind  { return "scale.count.v1" }
func (c count) MessageID() string { return c.ID }

type counted struct {
	N   int    `json:"n"`
	Key string `json:"key"`
}

func (counted) Kind() channel.Kind { return "scale.counted.v1" }

type total struct {
	Count int `json:"count"`
}

// progress has the times, in nanoseconds since the beginning, when commands were sent and reached their views. A
// repeated fold notes the time again, so the last one counts, which is the one that was written.
type progress struct {
	epoch      time.Time
	sent, seen []atomic.Int64
	done       atomic.Int64 // how many reached their views
}

func newProgress(n int) *progress {
	return &progress{epoch: time.Now(), sent: make([]atomic.Int64, n), seen: make([]atomic.Int64, n)}
}

func (p *progress) see(n int) {
	if p.seen[n].Swap(p.now()) == 0 {
		p.done.Add(1)
	}
}

func (p *progress) now() int64 { return int64(time.Since(p.epoch)) }

// A shard is a pair of queues, for the commands and events of some keys. The framework doesn't know shards: each has
// channels of its own.
type shard struct{ commands, events string }

func newShard(i int) shard {
	return shard{fmt.Sprintf("commands-%d", i), fmt.Sprintf("events-%d", i)}
}

func (s shard) channels(store *storage.Store) (*channel.Channels, error) {
	routes, err := channel.NewRoutes(channel.Command[count](s.commands), channel.Event[counted](s.events))
	if err != nil {
		return nil, err
	}
	return channel.New(store, routes, "/scale")
}

// register sets up the domain. With work, the event's subscriber is a reaction that waits that long for an outside
// system; without, it is a view.
func (s shard) register(c *channel.Channels, log *slog.Logger, p *progress, work time.Duration) *handlers.Registry {
	h := handlers.NewRegistry(c, handlers.Config{Logger: log})
	handlers.Decide(h, values.New(c, "totals", values.Config[total]{}), func(c count) string { return c.Key },
		func(t total, c count) (total, []channel.Message, error) {
			t.Count++
			return t, []channel.Message{counted{N: c.N, Key: c.Key}}, nil
		}, counted{})
	if work > 0 {
		handlers.React(h, s.events, func(ctx context.Context, e counted) error {
			if err := worldtest.Pause(ctx, work); err != nil {
				return err
			}
			p.see(e.N)
			return nil
		})
		return h
	}
	views.Project(h, views.New(c, s.events, views.Config[total]{}), func(e counted) string { return e.Key },
		func(t total, e counted) total {
			p.see(e.N)
			t.Count++
			return t
		})
	return h
}
