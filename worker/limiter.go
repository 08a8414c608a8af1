package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
)

// A Limiter says whether a consumer may take messages off its queue, how many, and when that changes. Now and Leave may
// be called at the same time.
//
// A Limiter may be wrong without harm. While Now blocks, panics or returns nonsense, the last limits stay in force;
// before its first answer that is a pause. The worker logs that, and asks again.
type Limiter interface {
	// Now returns the limits in force, and a channel that is closed when they change; nil if they never do.
	Now() (Limits, <-chan struct{})

	// Leave is called once, when the consumer takes no more messages, before those in hand are finished. ctx ends after
	// 30 seconds; the worker stops without it then.
	Leave(ctx context.Context) error
}

// Limits bound how a queue is consumed. A field that is zero leaves the setting of the [QueueConfig] in force; another
// value may be lower or higher than that.
type Limits struct {
	// Pause takes no messages. Running handlers go on, and messages that wait are handed back. It costs them no
	// attempt.
	Pause bool

	// Brief says that a pause is short and comes often, as between two permits of a rate. It isn't logged.
	Brief bool

	// Concurrency is how many handlers run at a time. When it falls, running handlers finish.
	Concurrency int

	// MaxInHand bounds how many messages the worker holds; less than Concurrency means that.
	MaxInHand int

	// PollInterval is the longest time between two looks of an idle worker, at least 20 ms.
	PollInterval time.Duration
}

// fault returns why no consumer can work within the limits, or nil.
func (l Limits) fault() error {
	if l.Concurrency < 0 || l.MaxInHand < 0 || l.PollInterval != 0 && l.PollInterval < inbox.FirstLook {
		return fmt.Errorf("can't work within %+v: want no negative number, and a PollInterval of at least %v", l, inbox.FirstLook)
	}
	return nil
}

// attrs name the limits in a log. One that is zero is not named: it limits nothing, and 0 would read as if it did.
func (l Limits) attrs() []slog.Attr {
	all := []slog.Attr{slog.Bool("pause", l.Pause)}
	if l.Concurrency != 0 {
		all = append(all, slog.Int("concurrency", l.Concurrency))
	}
	if l.MaxInHand != 0 {
		all = append(all, slog.Int("max_in_hand", l.MaxInHand))
	}
	if l.PollInterval != 0 {
		all = append(all, slog.Duration("poll_interval", l.PollInterval))
	}
	return all
}

// A Consumer is a worker that wants to consume a queue.
type Consumer struct {
	Store      *storage.Store
	Queue      string
	Worker     string         // Config.Name
	Kinds      []channel.Kind // that it has handlers for, in order
	Visibility time.Duration
	Logger     *slog.Logger
	Metrics    prometheus.Registerer // Config.Metrics; nil: none

	// Concurrency and MaxInHand are those of the queue, which limits may raise: a limiter that only lowers them needs
	// to know them.
	Concurrency, MaxInHand int

	// Others returns the limits that the queue's other limiters set, but for pauses, where [Limiters] combines several.
	// A limiter may call it in Now, and is asked again when they change. It may be nil.
	Others func() Limits

	// InHand returns how many messages the consumer holds: for a limiter that divides something among several queues.
	// It may be called at any time, and returns at once.
	InHand func() int

	// Fit reports that the consumer can receive. It can't if it has had no room for messages for longer than
	// Config.StuckAfter, because its handlers hang or take long, or if the store has failed for that long.
	Fit func() bool
}

// OpenLimiter opens a consumer's limiter. The worker calls it when it starts, before it takes a message. ctx ends when
// the worker stops. After an error, or without an answer within a minute, the worker doesn't start.
type OpenLimiter func(ctx context.Context, c Consumer) (Limiter, error)
