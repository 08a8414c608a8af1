package gate

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/metrics"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	usualPoll = 2500 * time.Millisecond // the longest time between two looks at a gate that is closed, while nothing rings

	openPolls = 12 // a gate that is open is looked at once in so many polls

	maxAhead = 10 * 365 * 24 * time.Hour
)

// Config is how a process uses a gate. The zero Config is right for most callers.
type Config struct {
	// Metrics gets the number of Waits and of openings. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures that no caller is told of: the store can't be reached, and can be again. Defaults to none.
	Logger *slog.Logger

	poll time.Duration // Defaults to usualPoll
}

// withDefaults returns a complete copy, or all that is wrong with it and the name.
func (c Config) withDefaults(name string) (Config, error) {
	c.poll = cmp.Or(c.poll, usualPoll)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("gate", name))
	return c, storage.CheckKey(name)
}

// gateMetrics are the metrics of one gate.
type gateMetrics struct {
	waiting prometheus.Gauge
	opened  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, name string) (gateMetrics, error) {
	label := []string{"gate"}
	waiting, err := metrics.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "millrace", Subsystem: "gate", Name: "waiting", Help: "Calls of Wait that wait for the gate to open.",
	}, label))
	if err != nil {
		return gateMetrics{}, err
	}
	opened, err := metrics.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "millrace", Subsystem: "gate", Name: "opened_total", Help: "Times that this process has opened the gate.",
	}, label))
	if err != nil {
		return gateMetrics{}, err
	}
	return gateMetrics{waiting: waiting.WithLabelValues(name), opened: opened.WithLabelValues(name)}, nil
}

// A Note tells an operator about a change of a gate. Both fields are valid UTF-8 without control characters.
type Note struct {
	By  string // who made the change, at most 100 bytes. Defaults to user@host, or the process
	Why string // at most 256 bytes; may be empty
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (n Note) withDefaults() (Note, error) {
	if n.By == "" {
		n.By = self()
	}
	return n, errors.Join(storecall.CheckText("By", n.By, storecall.MaxBy), storecall.CheckText("Why", n.Why, storecall.MaxWhy))
}

// self names the user and host of this process, or the process.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		return storecall.ProcessName()
	}
	u, err := user.Current()
	if err != nil || storecall.CheckText("By", u.Username+"@"+host, storecall.MaxBy) != nil {
		return storecall.ProcessName()
	}
	return u.Username + "@" + host
}

// checkTime returns what is wrong with the moment of an opening.
func checkTime(t, now time.Time) error {
	switch {
	case t.IsZero():
		return fmt.Errorf("%w: the time is zero; to open the gate now, call Open", storage.ErrInvalid)
	case t.Sub(now) > maxAhead:
		return fmt.Errorf("%w: the time is %s, more than ten years from now; is it in another unit? A gate that stays closed needs no time",
			storage.ErrInvalid, t.UTC().Format(time.RFC3339))
	}
	return nil
}
