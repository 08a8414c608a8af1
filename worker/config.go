package worker

import (
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

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
)

// Config is how a worker works. The zero Config is right for most.
type Config struct {
	// Name tells this worker from others, in logs and in the poison queue. Defaults to host, process ID and
	// four random digits.
	Name string

	// Queues are the queues to consume. Defaults to all that have handlers.
	Queues []string

	// Concurrency is how many handlers (or folds of one document) run at a time, for each queue.
	// Defaults to 32.
	Concurrency int

	// ActiveWorkers is, by queue, how many workers consume it at a time. All workers of a queue must name it here. The
	// others stand by. One of them takes over
	//
	//   - within some 10 seconds from a worker that stops,
	//   - within some 40 seconds from a worker that dies,
	//   - within 20 seconds after StuckAfter from a worker that can't receive any more.
	//
	// It is for queues whose messages meet in few documents: many workers lose races against one another there, and fold
	// less. It is not for handlers that wait, which want many workers. Chance decides which workers are active. A worker
	// that joins may take a queue over, and now and then more workers are active. Workers that know other kinds (an older
	// version) don't count. See coord/members, which takes a dozen requests a minute for each queue and worker. Defaults
	// to all workers, for each queue that is not named.
	ActiveWorkers map[string]int

	// MaxInHand bounds how many messages of a queue the worker holds. It holds as many only when they run soon; see the
	// package comment. 4096 messages with the longest bodies (48 KiB) take 200 MB. Defaults to 4096.
	MaxInHand int

	// MaxBodies bounds the claim-checked bodies that the worker holds, in bytes, for each queue. Decoded they may take as
	// much again. A message whose body might not fit waits until others end. One body is always fetched. Defaults to
	// 256 MiB.
	MaxBodies int

	// PollInterval is, by queue, the longest time between two looks of an idle worker, at least 20 ms. A ring ends it
	// early where the store can ring. Defaults to the store's own, [storage.Props].PollInterval, for each queue that is
	// not named.
	PollInterval map[string]time.Duration

	// Visibility is how long a message is hidden from others before it must be renewed. So it is also how long the
	// messages of a worker that died wait for another worker. Defaults to 30 seconds; at least 1 second.
	Visibility time.Duration

	// MaxAttempts is how often a handler may say no before the message goes to the poison queue. Defaults to 5.
	MaxAttempts int

	// MaxDeliveries is how many silent deliveries a message may have before it goes to the poison queue: such a message
	// kills its workers. After three of them, or one fewer than MaxDeliveries if that is less, it is a suspect; see the
	// package comment. Defaults to 20.
	MaxDeliveries int

	// UnknownFor is how long messages of a kind that is unknown here are handed back before they go to the poison queue. A
	// newer worker may know the kind. Defaults to 1 hour.
	UnknownFor time.Duration

	// RetryDelay returns the delay before the next attempt, given the number of failed attempts (1 to MaxAttempts-1) and
	// the message's ID. It must be pure. A negative delay counts as none, and the longest is storage.MaxDelay. When it
	// panics, the worker takes the default. It isn't called where no attempt was spent. Defaults to [RetryDelay].
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

// withDefaults returns a complete copy, or an error with every fault of the Config.
func (c Config) withDefaults(h *handlers.Registry) (Config, error) {
	var faults []error
	def := func(name string, v *int, d int) {
		if *v == 0 {
			*v = d
		}
		if *v < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want a positive number", name, *v))
		}
	}
	defTime := func(name string, v *time.Duration, d, least time.Duration) {
		if *v == 0 {
			*v = d
		}
		if *v < least {
			faults = append(faults, fmt.Errorf("%s is %v; want at least %v", name, *v, least))
		}
	}
	def("Concurrency", &c.Concurrency, 32)
	def("MaxInHand", &c.MaxInHand, 4096)
	def("MaxBodies", &c.MaxBodies, 256<<20)
	def("MaxAttempts", &c.MaxAttempts, 5)
	def("MaxDeliveries", &c.MaxDeliveries, 20)
	defTime("Visibility", &c.Visibility, 30*time.Second, storage.MinVisibility)
	defTime("UnknownFor", &c.UnknownFor, time.Hour, 1)
	defTime("DrainTimeout", &c.DrainTimeout, 20*time.Second, 1)
	defTime("StuckAfter", &c.StuckAfter, time.Minute, 1)
	c.MaxInHand = max(c.MaxInHand, c.Concurrency)
	if c.RetryDelay == nil {
		c.RetryDelay = RetryDelay
	}
	if c.Logger == nil {
		c.Logger = h.Logger()
	}
	c.Logger = handlers.GuardLogger(c.Logger)
	if c.Name == "" {
		c.Name = defaultName()
	}
	known := h.Queues()
	if len(c.Queues) == 0 {
		c.Queues = known
	}
	if len(c.Queues) == 0 {
		faults = append(faults, errors.New("no handler is registered"))
	}
	for i, q := range c.Queues {
		if !slices.Contains(known, q) {
			faults = append(faults, fmt.Errorf("queue %s has no handler", storage.Quote(q)))
		}
		if slices.Contains(c.Queues[:i], q) {
			faults = append(faults, fmt.Errorf("queue %s is named twice", q))
		}
	}
	c.ActiveWorkers = maps.Clone(c.ActiveWorkers)
	for _, q := range slices.Sorted(maps.Keys(c.ActiveWorkers)) {
		if !slices.Contains(c.Queues, q) {
			faults = append(faults, fmt.Errorf("ActiveWorkers names queue %s, which is not consumed", storage.Quote(q)))
		}
		if n := c.ActiveWorkers[q]; n < 1 {
			faults = append(faults, fmt.Errorf("ActiveWorkers of queue %s is %d; want a positive number", storage.Quote(q), n))
		}
	}
	c.PollInterval = maps.Clone(c.PollInterval)
	for _, q := range slices.Sorted(maps.Keys(c.PollInterval)) {
		if !slices.Contains(c.Queues, q) {
			faults = append(faults, fmt.Errorf("PollInterval names queue %s, which is not consumed", storage.Quote(q)))
		}
		if d := c.PollInterval[q]; d < inbox.FirstLook {
			faults = append(faults, fmt.Errorf("PollInterval of queue %s is %v; want at least %v", storage.Quote(q), d, inbox.FirstLook))
		}
	}
	faults = append(faults, h.Err())
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("worker: %w", err)
	}
	return c, nil
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
