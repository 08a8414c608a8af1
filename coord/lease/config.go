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

// Config is how a lease is held. The zero Config is right for most callers.
type Config struct {
	// TTL bounds how long a lease stays held after its holder has died: a waiting process takes it over 7/6 to 3/2 of
	// the TTL after the last renewal. The holder renews the lease every third of the TTL, and loses it when renewals
	// fail for 5/6 of it. Holders of one name may have different TTLs. At least 3 seconds, at most 24 hours, in whole
	// milliseconds. Defaults to 30 seconds.
	TTL time.Duration

	// Holder tells an operator who holds the lease. Defaults to host and process ID.
	Holder string

	// Logger gets failures that no caller is told of: while waiting or renewing, and a loss. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a complete copy, or all that is wrong with it and the name.
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
