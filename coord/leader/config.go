package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// The shortest and longest TTL are those of coord/lease.
const (
	minTTL = 3 * time.Second
	maxTTL = 24 * time.Hour
)

// Config is how a candidate stands and leads. The zero Config is right for most programs.
type Config struct {
	// TTL bounds how long nobody leads after a leader has died: another candidate follows 7/6 to 3/2 of the TTL after the
	// leader's last renewal. A leader renews its term every third of the TTL, and its context ends when renewals fail for
	// 5/6 of it. At least 3 seconds, at most 24 hours, in whole milliseconds. Defaults to 10 seconds: a dead leader is
	// followed within 15.
	TTL time.Duration

	// Holder tells an operator who leads. At most 256 bytes. Defaults to host and process ID.
	Holder string

	// DrainTimeout is how long the function may take to return after its context has ended. It keeps its term meanwhile,
	// unless the term is lost. Afterwards Run gives it up; see [ErrHung]. Defaults to 20 seconds.
	DrainTimeout time.Duration

	// Logger gets the beginnings and ends of terms, and the function's failures. Defaults to none.
	Logger *slog.Logger

	// Metrics takes the gauge millrace_leader_leading, the counter millrace_leader_terms_total, and the metrics of the
	// lease. Candidates may share it. Defaults to none.
	Metrics prometheus.Registerer
}

// withDefaults returns a complete copy, or all that is wrong with it, the store and the name.
func (c Config) withDefaults(store *storage.Store, name string) (Config, error) {
	faults := []error{storecall.CheckStore(store), checkName(name)}
	c.TTL = or(c.TTL, 10*time.Second)
	if c.TTL < minTTL || c.TTL > maxTTL || c.TTL%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: TTL is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.TTL, minTTL, maxTTL))
	}
	c.DrainTimeout = or(c.DrainTimeout, 20*time.Second)
	if c.DrainTimeout < 0 {
		faults = append(faults, fmt.Errorf("%w: DrainTimeout is %v; want more than 0", storage.ErrInvalid, c.DrainTimeout))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("leader", name))
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("leader: %w", err)
	}
	return c, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// checkName refuses a name that makes no name of a lease.
func checkName(name string) error {
	if err := storage.CheckKey(name); err != nil || len(prefix+name) <= storage.MaxKey {
		return err
	}
	return fmt.Errorf("%w: name %s: want at most %d bytes", storage.ErrInvalid, storage.Quote(name), storage.MaxKey-len(prefix))
}
