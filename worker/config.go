package worker

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
)

// DefaultConcurrency is the default of [Config].Concurrency.
const DefaultConcurrency = 32

// Config is how a worker works. The zero Config is right for most.
type Config struct {
	// Name tells this worker from others, in logs and in the poison queue. Defaults to host, process ID and
	// four random digits.
	Name string

	// Consume names the queues to consume. Defaults to all that have handlers.
	Consume []string

	// Queues holds the settings of single queues, by queue. A queue that has none here, and a field that is zero there,
	// takes the field of the same name below.
	Queues map[string]QueueConfig

	// Concurrency is how many handlers (or folds of one document) run at a time, for each queue. Defaults to 32.
	Concurrency int

	// MaxInHand bounds how many messages of a queue the worker holds. It holds as many only when they run soon; see the
	// package comment. Less than Concurrency means that. 4096 messages with the longest bodies (48 KiB) take 200 MB.
	// Defaults to 4096.
	MaxInHand int

	// MaxBodies bounds the claim-checked bodies that the worker holds, in bytes, for each queue. Decoded they may take
	// as much again. A message whose body might not fit waits until others end. One body is always fetched. Defaults to
	// 256 MiB.
	MaxBodies int

	// Visibility is how long a message is hidden from others before it must be renewed. So it is also how long the
	// messages of a worker that died wait for another worker at most. Defaults to 30 seconds; 1 second to 168 hours.
	Visibility time.Duration

	// MaxAttempts is how often a handler may say no before the message goes to the poison queue. The handlers of a
	// queue share it; one that wants fewer attempts gives up by itself, see handlers.Attempt. Defaults to 5.
	MaxAttempts int

	// MaxDeliveries is how many silent deliveries a message may have before it goes to the poison queue: such a message
	// kills its workers. After three of them, or one fewer than MaxDeliveries if that is less, it is a suspect; see the
	// package comment. Defaults to 20.
	MaxDeliveries int

	// UnknownFor is how long messages of a kind that is unknown here are handed back before they go to the poison
	// queue. A newer worker may know the kind. Defaults to 1 hour.
	UnknownFor time.Duration

	// RetryDelay returns the delay before the next attempt, given the number of failed attempts (1 to MaxAttempts-1)
	// and the message's ID. It must be pure. A negative delay counts as none, and the longest is channel.MaxDelay. When
	// it panics, the worker takes the default. It isn't called where no attempt was spent. Defaults to [RetryDelay].
	RetryDelay func(failed int, id string) time.Duration

	// DrainTimeout is how long running handlers may take to finish when the worker stops.
	// Defaults to 20 seconds.
	DrainTimeout time.Duration

	// StuckAfter is the running time after which a handler is reported as stuck, again and again. Defaults to 1 minute.
	StuckAfter time.Duration

	// Logger gets all log lines of the worker. Defaults to that of the registry.
	Logger *slog.Logger

	// Metrics takes the worker's metrics. Two workers of one process can't share one. Defaults to none.
	Metrics prometheus.Registerer
}

// QueueConfig is how a worker consumes one queue. A field that is zero takes the field of the same name of [Config],
// which also explains it. A queue is the unit of these settings: give a handler that needs others a queue of its own.
type QueueConfig struct {
	Concurrency int
	MaxInHand   int
	MaxBodies   int
	Visibility  time.Duration
	MaxAttempts int
	RetryDelay  func(failed int, id string) time.Duration

	// PollInterval is the longest time between two looks of an idle worker, at least 20 ms. A ring ends it early where
	// the store can ring. Defaults to the store's own, [storage.Props].PollInterval.
	PollInterval time.Duration

	// Reserve keeps some of the handlers free for urgent messages, in a queue of channel.Priorities. Defaults to none.
	Reserve Reserve

	// Limiter opens what says whether, and within which limits, this worker may take messages off the queue: for
	// example limiters.Workers(2) of package worker/limiters. [Limiters] combines several. Defaults to always, within
	// the limits above.
	Limiter OpenLimiter
}

// withDefaults returns a complete copy, or an error with every fault of the Config. Its Queues has an entry, without
// zeros, for each queue that is consumed.
func (c Config) withDefaults(h *handlers.Registry) (Config, error) {
	var f faults
	number := func(name string, v *int, d int) {
		*v = cmp.Or(*v, d)
		f.number("", name, *v)
	}
	duration := func(name string, v *time.Duration, d, least time.Duration) {
		*v = cmp.Or(*v, d)
		f.duration("", name, *v, least)
	}
	number("Concurrency", &c.Concurrency, DefaultConcurrency)
	number("MaxInHand", &c.MaxInHand, 4096)
	number("MaxBodies", &c.MaxBodies, 256<<20)
	number("MaxAttempts", &c.MaxAttempts, 5)
	number("MaxDeliveries", &c.MaxDeliveries, 20)
	c.Visibility = cmp.Or(c.Visibility, 30*time.Second)
	f.visibility("", c.Visibility)
	duration("UnknownFor", &c.UnknownFor, time.Hour, 1)
	duration("DrainTimeout", &c.DrainTimeout, 20*time.Second, 1)
	duration("StuckAfter", &c.StuckAfter, time.Minute, 1)
	if c.RetryDelay == nil {
		c.RetryDelay = RetryDelay
	}
	if c.Logger == nil {
		c.Logger = h.Inside().Logger
	}
	c.Logger = contain.Logger(c.Logger)
	if c.Name == "" {
		c.Name = defaultName()
	}
	known := h.Queues()
	if len(c.Consume) == 0 {
		c.Consume = known
	}
	if len(c.Consume) == 0 && h.Err() == nil { // else its faults say why
		f.add("no handler is registered")
	}
	for i, q := range c.Consume {
		if !slices.Contains(known, q) {
			f.add("queue %s has no handler", storage.Quote(q))
		}
		if slices.Contains(c.Consume[:i], q) {
			f.add("queue %s is named twice", q)
		}
	}
	c.Queues = c.eachQueue(&f, h.Channels().Routes())
	if err := errors.Join(append(f, h.Err())...); err != nil {
		return c, fmt.Errorf("worker: %w", err)
	}
	return c, nil
}

// eachQueue returns the settings of each queue that is consumed, and adds what is wrong with them.
func (c *Config) eachQueue(f *faults, routes *channel.Routes) map[string]QueueConfig {
	for _, q := range slices.Sorted(maps.Keys(c.Queues)) {
		own, where := c.Queues[q], "queue "+storage.Quote(q)+": "
		if !slices.Contains(c.Consume, q) {
			f.add("Queues names queue %s, which is not consumed", storage.Quote(q))
		}
		f.number(where, "Concurrency", own.Concurrency)
		f.number(where, "MaxInHand", own.MaxInHand)
		f.number(where, "MaxBodies", own.MaxBodies)
		f.number(where, "MaxAttempts", own.MaxAttempts)
		if own.Visibility != 0 {
			f.visibility(where, own.Visibility)
		}
		if own.PollInterval != 0 {
			f.duration(where, "PollInterval", own.PollInterval, inbox.FirstLook)
		}
	}
	all, divided := map[string]QueueConfig{}, routes.Lanes()
	for _, q := range c.Consume {
		own := c.Queues[q]
		own.Concurrency = cmp.Or(own.Concurrency, c.Concurrency)
		f.reserve(q, own.Reserve, own.Concurrency, divided[q].Priorities)
		own.MaxInHand = max(cmp.Or(own.MaxInHand, c.MaxInHand), own.Concurrency)
		own.MaxBodies = cmp.Or(own.MaxBodies, c.MaxBodies)
		own.Visibility = cmp.Or(own.Visibility, c.Visibility)
		own.MaxAttempts = cmp.Or(own.MaxAttempts, c.MaxAttempts)
		if own.RetryDelay == nil {
			own.RetryDelay = c.RetryDelay
		}
		all[q] = own
	}
	return all
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	var b [2]byte
	rand.Read(b[:])
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}
