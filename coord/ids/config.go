package ids

import (
	"cmp"
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

	// Most is the size of the largest range. A crash loses at most twice as many numbers. The first range has 10 numbers,
	// or Most if that is less. At least 1, at most 1,000,000,000. Defaults to 1,000,000.
	Most int64

	// Metrics gets millrace_ids_reservations_total, lost_races_total, waits_total and numbers_left, by counter. Several
	// Sequences may share it. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures of fetching ahead, which no caller is told of. Defaults to none.
	Logger *slog.Logger

	least int64 // the size of the first range, and of the smallest; 0: defaultLeast
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
	c.Most = cmp.Or(c.Most, defaultMost)
	if c.Most < 1 || c.Most > maxMost {
		wrong("Most is %d; want 1 to %d", c.Most, maxMost)
	}
	c.least = min(cmp.Or(c.least, defaultLeast), c.Most)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("counter", name))
	return c, errors.Join(faults...)
}
