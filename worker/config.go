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

	// Queues are those to consume. Defaults to all that have handlers.
	Queues []string

	// Concurrency is how many handlers (or folds of one document) run at a time, for each queue.
	// Defaults to 32.
	Concurrency int

	// ActiveWorkers is, by queue, how many workers consume it at a time, where all of them name it here. The others
	// stand by: one takes over within some ten seconds from a worker that stops, within some forty from one that dies, and
	// within twenty after StuckAfter from one that can't receive any more. It is for queues whose messages meet in few
	// documents, where many workers lose races against one another and fold less; not for handlers that wait, which
	// want many workers. Who is active is by chance, one that joins may take a queue over, and now and then there are
	// more. Workers that know other kinds (an older version) don't count. See coord/members, which takes a dozen
	// requests a minute for each queue and worker. Defaults to all workers, for each queue that is not named.
	ActiveWorkers map[string]int

	// MaxInHand bounds how many messages of a queue the worker holds. It holds as many only when they are
	// run soon; see the package comment. Those with the longest bodies (48 KiB) are 200 MB. Defaults to 4096.
	MaxInHand int

	// MaxBodies bounds the claim-checked bodies that the worker holds, in bytes, for each queue; decoded they may take
	// as much again. A message whose body might not fit waits for others to end. One is always fetched.
	// Defaults to 256 MiB.
	MaxBodies int

	// PollInterval is, by queue, the longest time between two looks of an idle worker, at least 20 ms; a ring ends it early,
	// where the store can ring. Defaults to the store's own for each queue that is not named: [storage.Props].PollInterval, or
	// QuietInterval where rings are vouched for and nothing came without one for an hour.
	PollInterval map[string]time.Duration

	// Visibility is how long a message is hidden from others before it must be renewed, and so how long a
	// dead worker's messages wait for another. Defaults to 30 seconds; at least 1 second.
	Visibility time.Duration

	// MaxAttempts is how often a handler may say no before the message goes to the poison queue.
	// Defaults to 5.
	MaxAttempts int

	// MaxDeliveries is how often a message may be taken without a word about its end before it goes to the
	// poison queue: a message that kills its workers. After three times, or one fewer than this if that is
	// less, it is a suspect; see the package comment. Defaults to 20.
	MaxDeliveries int

	// UnknownFor is how long messages of a kind that is unknown here are handed back, because a newer worker
	// may know it, before they go to the poison queue. Defaults to 1 hour.
	UnknownFor time.Duration

	// RetryDelay gives the time to the next attempt after the given number of failed ones (1 to MaxAttempts-1), for
	// the message of that ID. It must be pure. A negative time is none; the longest is storage.MaxDelay; when it panics
	// the default is taken. It isn't asked where no attempt was spent. Defaults to [RetryDelay].
	RetryDelay func(failed int, id string) time.Duration

	// DrainTimeout is how long running handlers may take to finish when the worker stops.
	// Defaults to 20 seconds.
	DrainTimeout time.Duration

	// StuckAfter is the running time after which a handler is reported as stuck, again and again. Defaults to
	// 1 minute.
	StuckAfter time.Duration

	// Logger gets what happens. Defaults to that of the registry.
	Logger *slog.Logger

	// Metrics takes the worker's metrics. Defaults to none. Two workers of one process can't share one.
	Metrics prometheus.Registerer
}

// withDefaults returns a copy that is complete, or all that is wrong with it.
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
