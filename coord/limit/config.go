package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/coord/limit/internal/row"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// These bound what can be divided.
const (
	LeastRate = 0.2     // calls a second; a slower rate isn't worth a document
	MostRate  = 1e9     // calls a second
	MostSlots = 1 << 30 // calls at a time
)

const defaultTTL = 20 * time.Second // of a row

// Config is how a process takes part. The zero Config is right for most callers.
type Config struct {
	// Strict makes no call when the share has ended because the store is away. Defaults to false: the process goes on with
	// the limit divided by the number of processes that it saw last.
	Strict bool

	// Changed is called when the share changes. It returns at once, and calls nothing of this package. A panic is logged.
	// Defaults to none.
	Changed func()

	// Logger gets what no caller is told of: the document can't be reached, or can't be read, or Changed panics. Defaults
	// to none.
	Logger *slog.Logger

	ttl time.Duration // 0: defaultTTL
}

// withDefaults returns a complete copy, or all that is wrong with it, the store and the name.
func (c Config) withDefaults(store *storage.Store, name string) (Config, error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(name)}
	c.ttl = cmp.Or(c.ttl, defaultTTL)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("share", name))
	if c.Changed != nil {
		c.Changed = contained(c.Changed, c.Logger)
	}
	return c, errors.Join(faults...)
}

// contained returns f without its panics: it is called on a goroutine of this package's own, under a mutex.
func contained(f func(), log *slog.Logger) func() {
	return func() {
		if err := contain.Apart(func() error { f(); return nil }); err != nil {
			log.LogAttrs(context.Background(), slog.LevelError, "Config.Changed panics", slog.Any("error", err))
		}
	}
}

// join returns what a bucket stands on: a row in the document of a number.
func (c Config) join(store *storage.Store, key string) bucket.Config {
	k := row.NewKeeper(store, key, row.Config{TTL: c.ttl, Strict: c.Strict, Logger: c.Logger})
	return bucket.Config{TTL: c.ttl, Changed: c.Changed, Join: k.Join}
}

// alone is what a bucket stands on that has all of a number.
func alone() bucket.Config { return bucket.Config{TTL: row.LeastTTL} }

// left is the error of leaving.
func left(key string, err error) error {
	if err != nil {
		return fmt.Errorf("limit: leave %s: %w", storage.Quote(key), err)
	}
	return nil
}

// CheckRate refuses a rate that can't be divided.
func CheckRate(perSecond float64) error {
	if math.IsNaN(perSecond) || perSecond < LeastRate || perSecond > MostRate {
		return fmt.Errorf("%w: the rate is %v a second; want %v to %v, which is at least 12 a minute", storage.ErrInvalid, perSecond, LeastRate, MostRate)
	}
	return nil
}

// CheckSlots refuses a number of slots that can't be divided.
func CheckSlots(n int) error {
	if n < 1 || n > MostSlots {
		return fmt.Errorf("%w: %d slots; want 1 to %d", storage.ErrInvalid, n, MostSlots)
	}
	return nil
}

// Damaged returns the names of rates and slots whose blob can't be read, as "rate/smtp". The processes that use such a
// number replace the blob by themselves, 70 seconds after nobody has changed it.
func Damaged(ctx context.Context, s *storage.Store) (names []string, err error) {
	if names, err = row.Damaged(ctx, s); err != nil {
		return nil, fmt.Errorf("limit: damaged: %w", err)
	}
	return names, nil
}
