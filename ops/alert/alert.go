package alert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/storage"
)

// An Alert says that something is wrong, or that it is over.
type Alert struct {
	ID      string         // a UUID of this beginning or end, the same in each try to tell it
	Over    bool           // the end
	Finding doctor.Finding // as it was when it began
	More    int            // so many others have begun or ended with it, and are not told one by one
	Since   time.Time      // when it began
	At      time.Time      // when it began or ended
}

// Title is a line about the alert.
func (a Alert) Title() string {
	text := "Wrong: "
	if a.Over {
		text = "Over: "
	}
	text += a.Finding.Text
	switch {
	case a.More == 1:
		text += ", and 1 more"
	case a.More > 1:
		text += fmt.Sprintf(", and %d more", a.More)
	}
	return text
}

// String is the alert in words, with what to do about it.
func (a Alert) String() string {
	text := fmt.Sprintf("%s\nSince %s", a.Title(), act.Clock(a.Since))
	if a.Over {
		return text + fmt.Sprintf(", until %s\n", act.Clock(a.At))
	}
	return text + fmt.Sprintf("\n%s\n", a.Finding.Fix)
}

// A Hook tells people. It returns nil once another system is responsible for that. Its context ends after 20 seconds,
// or when this process doesn't lead any more.
type Hook func(ctx context.Context, a Alert) error

// A pace is how often a process looks, and how soon a dead leader is followed. A process that has become the leader
// waits before its first look, so that a program that starts has published what it knows.
type pace struct{ every, ttl time.Duration }

// A Config says what is looked at, and who is told. Store, Name and Hook are required.
type Config struct {
	Store   *storage.Store        // as it was opened
	Name    string                // of the program: its processes tell once for all of them
	Hook    Hook                  // tells people
	Command string                // by which people operate the program; defaults to millrace
	File    string                // of a store in a file; may be empty
	Logger  *slog.Logger          // gets what could not be looked at or told. Defaults to none
	Metrics prometheus.Registerer // takes the metrics of package leader. Defaults to none
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	faults := []error{storecall.CheckStore(c.Store), storage.CheckKey(c.Name)}
	if c.Hook == nil {
		faults = append(faults, fmt.Errorf("%w: Hook is nil", storage.ErrInvalid))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("alert: %w", err)
	}
	return c, nil
}

// Run looks and tells whenever this process leads, until ctx ends. Then it returns nil. It returns an error at once if
// something is wrong with cfg, and else no error: what can't be done is logged, and tried again.
func Run(ctx context.Context, cfg Config) error {
	return run(ctx, cfg, pace{every: time.Minute, ttl: time.Minute})
}

func run(ctx context.Context, cfg Config, p pace) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	desk, err := act.At(cfg.Store, act.Program{Command: cfg.Command})
	if err != nil {
		return fmt.Errorf("alert: %w", err)
	}
	desk.File = cfg.File
	r := &rounds{cfg: cfg, every: p.every, desk: desk, told: map[string]bool{}, said: map[string]string{}}
	lead := leader.Config{TTL: p.ttl, Logger: cfg.Logger, Metrics: cfg.Metrics}
	for ctx.Err() == nil {
		err := leader.Run(ctx, cfg.Store, "alerts/"+cfg.Name, lead, r.lead)
		if err != nil && ctx.Err() == nil {
			r.say("lead", "nobody is told what is wrong with the store", err)
			_ = storecall.Sleep(ctx, p.every) // the loop sees that ctx has ended
		}
	}
	return nil
}

// lead makes one round after another while the term lasts.
func (r *rounds) lead(ctx context.Context, term leader.Term) error {
	r.begin(term.Blobs(r.cfg.Store.Blobs(container)))
	for {
		if err := storecall.Sleep(ctx, r.every); err != nil {
			return err
		}
		if err := r.round(ctx); err != nil {
			return err
		}
	}
}
