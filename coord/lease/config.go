package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	minTTL = 3 * time.Second
	maxTTL = 24 * time.Hour
)

// Config is how a lease is held. The zero Config is right for most.
type Config struct {
	// TTL is how long a lease outlives a holder that has died, about: who waits for it takes it over 7/6 to 3/2 of it
	// after the last renewal. It is renewed every third of it, and lost when that fails until 5/6 of it. Holders of one
	// name may have different ones. At least 3 seconds, at most 24 hours, in whole milliseconds. Defaults to 30 seconds.
	TTL time.Duration

	// Holder says who holds the lease, for people. Defaults to host and process ID.
	Holder string

	// Logger gets what no caller is told: failures while waiting or renewing, and a loss. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a copy that is complete, or all that is wrong with it and the name.
func (c Config) withDefaults(name string) (Config, error) {
	faults := []error{storage.CheckKey(name)}
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	if c.TTL < minTTL || c.TTL > maxTTL || c.TTL%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: TTL is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.TTL, minTTL, maxTTL))
	}
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "process"
		}
		c.Holder = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("lease", name))
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("lease: %w", err)
	}
	return c, nil
}
