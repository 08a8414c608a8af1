package members

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	minBeat = time.Second
	maxBeat = time.Hour
)

// Config is how a process joins a group.
type Config struct {
	// Name tells an operator who the member is; it is in the member's row. It needn't be unique. Defaults to none.
	Name string

	// Active is how many members are active at a time. Each member uses its own number. Defaults to 1.
	Active int

	// Beat is how often the member writes its row. Others take the member for dead when the row stays the same for
	// three beats. At least 1 second, at most 1 hour, in whole milliseconds. Defaults to 10 seconds.
	Beat time.Duration

	// Fit is called before each beat. While it returns false the member withdraws its row, so that another takes over;
	// Active stays as it is. Defaults to always fit.
	Fit func() bool

	// Logger gets failures that no caller is told of: the store can't be reached, and can be again. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a complete copy, or all that is wrong with it, the store and the group.
func (c Config) withDefaults(store *storage.Store, group string) (Config, error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(group)}
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
