package throttle

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Bound is what a queue may be like, so that a program need not leave anything out.
type Bound struct {
	Queue   string        // that is looked at
	Waiting int64         // messages that may wait. Defaults to no bound.
	Age     time.Duration // of the oldest message that waits. Defaults to no bound.
	Level   int           // while the queue is above the bound, 1 to 3, at which it is still consumed. Defaults to 1.
}

// Raise is by what a level follows the pressure on a program's queues.
type Raise struct {
	// Bounds are those of some queues, 32 at most. A queue may have several, with other levels. The level is that of the
	// highest bound that is exceeded. At least one.
	Bounds []Bound

	// Every is the time between two looks at the queues, a second to an hour. Defaults to 5 seconds.
	Every time.Duration

	// Calm is how long a queue must be within a bound before the level falls below that of the bound. Defaults to a
	// minute.
	Calm time.Duration

	// Logger gets a line for each change, and when a queue can't be read. Defaults to none.
	Logger *slog.Logger
}

const mostBounds = 32

// withDefaults returns a complete copy, or all that is wrong with it.
func (r Raise) withDefaults() (Raise, error) {
	var faults []error
	wrong := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	if len(r.Bounds) == 0 || len(r.Bounds) > mostBounds {
		wrong("there are %d bounds; want 1 to %d", len(r.Bounds), mostBounds)
	}
	bounds := make([]Bound, len(r.Bounds))
	for i, b := range r.Bounds {
		b.Level = cmp.Or(b.Level, 1)
		if b.Queue == "" {
			wrong("bound %d has no Queue", i+1)
		}
		if b.Waiting < 0 || b.Age < 0 || b.Waiting == 0 && b.Age == 0 {
			wrong("the bound of queue %s has Waiting %d and Age %v; want one of them at least, and none negative", storage.Quote(b.Queue), b.Waiting, b.Age)
		}
		if b.Level < 1 || b.Level > MostLevel {
			wrong("the bound of queue %s has Level %d; want 1 to %d", storage.Quote(b.Queue), b.Level, MostLevel)
		}
		bounds[i] = b
	}
	r.Bounds, r.Every, r.Calm = bounds, cmp.Or(r.Every, 5*time.Second), cmp.Or(r.Calm, time.Minute)
	if r.Every < leastEvery || r.Every > mostEvery || r.Calm < r.Every || r.Calm > maxPer {
		wrong("Every is %v and Calm %v; want %v to %v, and Every to %v", r.Every, r.Calm, leastEvery, mostEvery, maxPer)
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r, together(faults...)
}

// Check says all that is wrong with the settings.
func (r Raise) Check() error {
	_, err := r.withDefaults()
	return err
}

// raiser raises a level.
type raiser struct {
	Raise
	level  *Level
	store  *storage.Store
	looked time.Time                // last
	above  [MostLevel + 1]time.Time // when a bound of that level was exceeded last, or wasn't known to hold
	blind  bool                     // the last look failed
}

// Follow raises a level at once when a queue exceeds a bound, and lowers it after a time of calm, until ctx ends. The
// level is never below that of [Level.Set]. When Follow returns, that is the level. A queue that can't be
// read leaves the level as it is. The error is nil, unless the settings are wrong.
//
// Each look costs a request for each queue.
func (l *Level) Follow(ctx context.Context, s *storage.Store, r Raise) error {
	r, err := r.withDefaults()
	if err != nil {
		return fmt.Errorf("throttle: follow queues: %w", err)
	}
	x := &raiser{Raise: r, level: l, store: s}
	defer l.press(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		x.look(ctx)
		timer.Reset(r.Every)
	}
}

// look looks at all queues once.
func (x *raiser) look(ctx context.Context) {
	stats, err := x.stats(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !x.blind {
			x.Logger.LogAttrs(ctx, slog.LevelWarn, "queues that the level follows can't be read; it stays as it is", slog.Any("error", err))
		}
		x.blind = true
		return
	}
	x.blind = false
	now := time.Now()
	seen := now.Sub(x.looked) < 3*x.Every // else nobody knows what was in between
	x.looked = now
	before, why, level := x.level.pressure(), "", 0
	for l := 1; l <= before && !seen; l++ {
		x.above[l] = now
	}
	for _, b := range x.Bounds {
		st := stats[b.Queue]
		over := b.Waiting > 0 && st.Ready > b.Waiting || b.Age > 0 && st.Oldest > b.Age
		if !over {
			continue
		}
		for l := 1; l <= b.Level; l++ {
			x.above[l] = now
		}
		if b.Level > level {
			level, why = b.Level, fmt.Sprintf("%d messages wait in %s, the oldest for %v", st.Ready, b.Queue, st.Oldest.Round(time.Second))
		}
	}
	for l := level + 1; l <= before; l++ {
		if now.Sub(x.above[l]) < x.Calm {
			level = l
		}
	}
	if level == before {
		return
	}
	severity := slog.LevelWarn
	if level < before {
		severity, why = slog.LevelInfo, fmt.Sprintf("calm for %v", x.Calm)
	}
	x.level.press(level)
	x.Logger.LogAttrs(ctx, severity, "the level of what is left out follows the queues", slog.Int("from", before), slog.Int("to", level), slog.String("why", why))
}

// stats asks for each queue once.
func (x *raiser) stats(ctx context.Context) (map[string]storage.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, x.Every)
	defer cancel()
	all := map[string]storage.Stats{}
	for _, b := range x.Bounds {
		if _, ok := all[b.Queue]; ok {
			continue
		}
		st, err := x.store.Queue(b.Queue).Stats(ctx)
		if err != nil {
			return nil, err
		}
		if b.Waiting > 0 && st.Ready < 0 || b.Age > 0 && st.Oldest < 0 {
			return nil, fmt.Errorf("the store can't tell how long queue %s is", storage.Quote(b.Queue))
		}
		all[b.Queue] = st
	}
	return all, nil
}
