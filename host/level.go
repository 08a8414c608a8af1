package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/metrics"
	"github.com/millrace-go/millrace/storage"
)

// follow lets the level follow the queues of Program.Raise, if there are some.
func (s *service) follow(a *App) error {
	raise := s.Raise
	if len(raise.Bounds) == 0 {
		return nil
	}
	if err := raise.Check(); err != nil {
		return fmt.Errorf("host: Program.Raise: %w", err)
	}
	queues := a.Channels.Routes().Queues()
	for _, b := range raise.Bounds {
		if !slices.Contains(queues, b.Queue) {
			return fmt.Errorf("host: Program.Raise: the program has no queue %s; want one of %s", storage.Quote(b.Queue), strings.Join(queues, ", "))
		}
	}
	if err := s.checkBounds(); err != nil {
		return err
	}
	if raise.Logger == nil {
		raise.Logger = a.Log
	}
	if err := a.showLevel(); err != nil {
		return err
	}
	a.Go("level", func(ctx context.Context) error { return a.Level.Follow(ctx, a.Store, raise) })
	return nil
}

// checkBounds refuses the bound of a queue that waits at the level of the bound, or below it: it would not be consumed
// until it is shorter, and so never. Only a worker knows which queues wait.
func (s *service) checkBounds() error {
	if s.registry == nil {
		return nil
	}
	var faults []error
	for _, b := range s.Raise.Bounds {
		from, level := s.registry.Inside().Optional[b.Queue], cmp.Or(b.Level, 1)
		if from > 0 && from <= level {
			faults = append(faults, fmt.Errorf("host: Program.Raise: %w: a bound of queue %s raises the level to %d, and the queue is optional from level %d on: it would wait at that level, and never get shorter; give the bound to another queue, or see that its level is below that of handlers.Optional", storage.ErrInvalid, storage.Quote(b.Queue), level, from))
		}
	}
	return errors.Join(faults...)
}

// waitsFrom returns a function that returns the level from which a queue waits, if it waits now, and 0 otherwise.
func (a *App) waitsFrom(registry *handlers.Registry) func(queue string) int {
	return func(queue string) int {
		if from := registry.Inside().Optional[queue]; from > 0 && a.Level.Off(from) {
			return from
		}
		return 0
	}
}

// showLevel shows the level in the metrics.
func (a *App) showLevel() error {
	_, err := metrics.Register(a.Metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "millrace", Name: "level", Help: "How much the program leaves out: 0 nothing, up to 3.",
	}, func() float64 { return float64(a.Level.Now()) }))
	if err != nil {
		return fmt.Errorf("host: metrics: %w", err)
	}
	return nil
}
