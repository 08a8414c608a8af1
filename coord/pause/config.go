package pause

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	usualPoll = 30 * time.Second // the longest time between two looks of a watch, while nothing rings

	leastLength = time.Second
	mostLength  = 10 * 365 * 24 * time.Hour
)

// Config is how a process watches pauses. The zero Config is right for most callers.
type Config struct {
	// Logger gets what no caller is told of: the pauses can't be read, and can be again. Defaults to none.
	Logger *slog.Logger

	poll time.Duration // Defaults to usualPoll
}

// withDefaults returns a complete copy.
func (c Config) withDefaults() Config {
	c.poll = cmp.Or(c.poll, usualPoll)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Note tells others about a pause. Both fields are valid UTF-8 without control characters.
type Note struct {
	By  string // who paused the queue, at most 100 bytes. Defaults to the process
	Why string // at most 256 bytes; may be empty
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (n Note) withDefaults() (Note, error) {
	n.By = cmp.Or(n.By, storecall.ProcessName())
	return n, errors.Join(storecall.CheckText("By", n.By, storecall.MaxBy), storecall.CheckText("Why", n.Why, storecall.MaxWhy))
}

// checkQueues refuses names that no queue has.
func checkQueues(queues []string) (err error) {
	for _, q := range queues {
		err = errors.Join(err, storage.CheckName(q))
	}
	return err
}

// checkLength refuses a length that no pause has. 0 is no end.
func checkLength(d time.Duration) error {
	if d != 0 && (d < leastLength || d > mostLength) {
		return fmt.Errorf("%w: the length is %v; want %v to ten years, or 0 for a pause without an end", storage.ErrInvalid, d, leastLength)
	}
	return nil
}
