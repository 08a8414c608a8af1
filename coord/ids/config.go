package ids

import (
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	defaultLeast = 10
	defaultMost  = 1_000_000
	maxMost      = 1_000_000_000
)

// Config is how a process takes numbers of a counter. The zero Config is right for most callers.
type Config struct {
	// First is the first number of a counter that doesn't exist yet. At least 1. Defaults to 1.
	First int64

	// Least is the size of the first range, and of the smallest. At least 1. Defaults to 10, or to Most if that is less.
	Least int64

	// Most is the size of the largest range. A crash loses at most twice as many numbers. At least Least, at most
	// 1,000,000,000. Defaults to 1,000,000, or to Least if that is more.
	Most int64

	// Metrics gets millrace_ids_reservations_total, lost_races_total, waits_total and numbers_left, by counter. Several
	// Sequences may share it. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures of fetching ahead, which no caller is told of. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a complete copy, or all that is wrong with it, the store and the name.
func (c Config) withDefaults(store *storage.Store, name string) (Config, error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(name)}
	wrong := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	if c.First == 0 {
		c.First = 1
	}
	if c.First < 1 || c.First == math.MaxInt64 {
		wrong("First is %d; want 1 to %d", c.First, int64(math.MaxInt64-1))
	}
	if c.Least == 0 {
		c.Least = defaultLeast
		if c.Most > 0 {
			c.Least = min(c.Least, c.Most)
		}
	}
	if c.Most == 0 {
		c.Most = max(defaultMost, c.Least)
	}
	if c.Least < 1 {
		wrong("Least is %d; want at least 1", c.Least)
	}
	if c.Most < 1 || c.Most < c.Least || c.Most > maxMost {
		wrong("Most is %d; want at least Least, which is %d, and at most %d", c.Most, c.Least, maxMost)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("counter", name))
	return c, errors.Join(faults...)
}
