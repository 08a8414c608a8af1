package members

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	minBeat = time.Second
	maxBeat = time.Hour
)

// Config says who joins.
type Config struct {
	// Name says who the member is, for people: it is in its row. It needn't be unique.
	Name string

	// Active is how many members are active at a time. Each goes by its own number. Defaults to 1.
	Active int

	// Beat is how often the member says that it is alive. Others take it for dead after three beats of silence.
	// Defaults to 10 seconds; at least 1 second, at most 1 hour, in whole milliseconds.
	Beat time.Duration

	// Fit, if it isn't nil, is asked before each beat. While it says false the member withdraws its row, so that another takes
	// over; Active stays as it is.
	Fit func() bool

	// Logger gets what no caller is told: that the store can't be reached, and can again. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a copy that is complete, or all that is wrong with it and the group.
func (c Config) withDefaults(group string) (Config, error) {
	faults := []error{storage.CheckKey(group)}
	if c.Active == 0 {
		c.Active = 1
	}
	if c.Active < 0 {
		faults = append(faults, fmt.Errorf("%w: Active is %d; want a positive number", storage.ErrInvalid, c.Active))
	}
	if c.Beat == 0 {
		c.Beat = 10 * time.Second
	}
	if c.Beat < minBeat || c.Beat > maxBeat || c.Beat%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: Beat is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.Beat, minBeat, maxBeat))
	}
	if c.Fit == nil {
		c.Fit = func() bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(faults...)
}
