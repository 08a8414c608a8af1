package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	minTTL    = 3 * time.Second
	maxTTL    = 24 * time.Hour
	minStores = 3
	maxStores = 9
	maxHolder = 256 // bytes
)

// Config is how a lock is held. The zero Config is right for most callers.
type Config struct {
	// TTL bounds how long a lock stays held after its holder has died: a waiting process takes it over 7/6 to 3/2 of
	// the TTL after the last renewal. The holder renews its grants every third of the TTL, and loses the lock when it
	// can't renew a majority for 5/6 of it. No call to a store is waited for longer than an eighth of it. All processes
	// use one TTL for a name. At least 3 seconds, at most 24 hours, in whole milliseconds. Defaults to 10 seconds.
	TTL time.Duration

	// Holder tells an operator who holds the lock. At most 256 bytes of valid UTF-8. Defaults to host and process ID.
	Holder string

	// Logger gets failures that no caller is told of: while waiting or renewing, and a loss. Defaults to none.
	Logger *slog.Logger

	// Metrics gets counters: millrace_quorum_rounds_total by outcome, millrace_quorum_lost_total, and
	// millrace_quorum_store_failures_total by the store's index. Defaults to none.
	Metrics prometheus.Registerer
}

// A setting is a complete Config and what is made of it.
type setting struct {
	Config
	rounds   *prometheus.CounterVec
	losses   prometheus.Counter
	failures *prometheus.CounterVec
}

// complete returns the settings of a lock, or all that is wrong with the arguments.
func (c Config) complete(stores []*storage.Store, name string) (setting, error) {
	faults := append(checkStores(stores), storage.CheckKey(name))
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.TTL < minTTL || c.TTL > maxTTL || c.TTL%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: TTL is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.TTL, minTTL, maxTTL))
	}
	if len(c.Holder) > maxHolder || !utf8.ValidString(c.Holder) {
		faults = append(faults, fmt.Errorf("%w: Holder is %s; want at most %d bytes of valid UTF-8", storage.ErrInvalid, storage.Quote(c.Holder), maxHolder))
	}
	if c.Holder == "" {
		c.Holder = storecall.ProcessName()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("lock", name))
	s := setting{Config: c}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "millrace", Subsystem: "quorum", Name: name, Help: help}
	}
	var err error
	s.rounds, err = metrics.Register(c.Metrics, prometheus.NewCounterVec(opts("rounds_total", "Rounds of acquisitions, by outcome: acquired, held, split, or failed."), []string{"outcome"}))
	faults = append(faults, err)
	s.losses, err = metrics.Register(c.Metrics, prometheus.NewCounter(opts("lost_total", "Locks that were lost while they were held.")))
	faults = append(faults, err)
	s.failures, err = metrics.Register(c.Metrics, prometheus.NewCounterVec(opts("store_failures_total", "Calls to a store without success, by the store's index."), []string{"store"}))
	faults = append(faults, err)
	if err := errors.Join(faults...); err != nil {
		return s, fmt.Errorf("quorum: %w", err)
	}
	return s, nil
}

func checkStores(stores []*storage.Store) (faults []error) {
	if n := len(stores); n%2 == 0 || n < minStores || n > maxStores {
		faults = append(faults, fmt.Errorf("%w: %d stores; want an odd number from %d to %d", storage.ErrInvalid, n, minStores, maxStores))
	}
	first, open := map[*storage.Store]int{}, 0
	for i, s := range stores {
		j, twice := first[s]
		switch {
		case s == nil:
		case twice:
			faults = append(faults, fmt.Errorf("%w: stores[%d] and stores[%d] are one store", storage.ErrInvalid, j, i))
		default:
			first[s] = i
			open++
		}
	}
	if n := len(stores); open <= n/2 {
		faults = append(faults, fmt.Errorf("%w: %d of %d stores are open; want a majority", storage.ErrInvalid, open, n))
	}
	return faults
}
