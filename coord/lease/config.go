package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/storecall"
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

	// Holder tells an operator who holds the lease. [Lease.HandOver] names the next holder by it. At most 256 bytes.
	// Defaults to host and process ID.
	Holder string

	// Metrics gets the counters and the histogram of leases (millrace_lease_…). Their one label is the lease's name,
	// because a program has few leases; the leases of [Update] count together, by container. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures that no caller is told of: while waiting or renewing, and a loss. Defaults to none.
	Logger *slog.Logger

	label  string // of the metrics; empty: the name
	meters *meters
}

func (c Config) ttl() time.Duration {
	if c.TTL == 0 {
		return 30 * time.Second
	}
	return c.TTL
}

// withDefaults returns a complete copy, or all that is wrong with it, the store and the name.
func (c Config) withDefaults(store *storage.Store, name string) (Config, error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(name), storecall.CheckText("Holder", c.Holder, maxText)}
	c.TTL = c.ttl()
	if c.TTL < minTTL || c.TTL > maxTTL || c.TTL%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: TTL is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.TTL, minTTL, maxTTL))
	}
	if c.Holder == "" {
		c.Holder = storecall.ProcessName()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("lease", name))
	if c.label == "" {
		c.label = name
	}
	if errors.Join(faults...) == nil && c.Metrics != nil {
		var err error
		c.meters, err = newMeters(c.Metrics, c.label)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("lease: %w", err)
	}
	return c, nil
}
