package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/settings"
)

const (
	leastBake = time.Second
	mostBake  = 7 * 24 * time.Hour

	// aloneFor is how long a breaker must have been open here and not elsewhere. Before that the others may not know.
	aloneFor = 10 * time.Second
)

// addBake defines the flag of stages.
func addBake(flags *boot.Flags) *time.Duration {
	bake := flags.Duration("bake", 0, 0, mostBake, "the `TIME` for which 10% of the programs run a change of settings, and must be well with it, before 50% do, and then all;\n"+
		"at least 1s, for example 10m. A change that makes one ill is taken back from all. 0 means no stages, unless the\n"+
		"program has some of its own. All programs of one system use the same")
	flags.Check("bake", func() error {
		if *bake != 0 && *bake < leastBake || *bake%time.Millisecond != 0 {
			return errors.New("want 0, or a time from 1s to 168h, in whole milliseconds")
		}
		return nil
	})
	return bake
}

// withBake returns a program's stages with the bake of the flag, if that is set.
func withBake(own []settings.Stage, bake time.Duration) []settings.Stage {
	if bake == 0 {
		return own
	}
	if len(own) == 0 {
		return settings.InStages(bake, 10, 50, 100)
	}
	own = slices.Clone(own)
	for i := range own {
		own[i].Bake = bake
	}
	return own
}

// health returns what tells whether this process is well with a change: its own function, and its breakers.
func (a *App) health(own func(context.Context) error, state func() settings.State) func(context.Context) error {
	return func(ctx context.Context) error {
		if own != nil {
			if err := own(ctx); err != nil {
				return err
			}
		}
		s := state()
		if !s.Staged {
			return nil // it runs the change since just now
		}
		for _, queue := range slices.Sorted(maps.Keys(a.guards)) {
			if g := a.guards[queue]; g != nil && openedBy(g.Counts(), s.Since, time.Now()) {
				return fmt.Errorf("the breaker of queue %s has opened with it, and not for the others", queue)
			}
		}
		return nil
	}
}

// openedBy reports that a breaker has opened since a change, for this process alone.
func openedBy(c guard.Counts, change, now time.Time) bool {
	return c.Alone.After(change) && now.Sub(c.Alone) >= aloneFor
}

// work returns what counts this process's work, nil if nothing does. A process without a worker must not promise calls.
func (a *App) work(own func() settings.Work) func() settings.Work {
	if !a.Worker {
		return own
	}
	return func() (w settings.Work) {
		if own != nil {
			w = own()
		}
		done, failed := a.worked()
		w.Done += done
		w.Failed += failed
		return w
	}
}

// worked returns what the worker has done, and how much has failed. An attempt that fails by a guarded call counts
// once: as an attempt, or while its service is away, and no attempt is spent, as a call.
func (a *App) worked() (done, failed int64) {
	w := a.working.Load()
	if w == nil {
		return 0, 0
	}
	retried := map[*guard.Guard]int64{} // nil is none
	for queue, c := range w.Counts() {
		done += c.Done
		failed += c.Poisoned
		retried[a.guards[queue]] += c.Retried
	}
	for g, n := range retried {
		if g != nil {
			n = max(n, g.Counts().Failed)
		}
		failed += n
	}
	return done, failed
}
