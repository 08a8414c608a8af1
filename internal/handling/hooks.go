package handling

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/internal/handling/usercode"
)

// Hooks are what a worker does for the framework's packages beside handling their messages.
type Hooks struct {
	checks   []func(context.Context) error
	clockSet []func(context.Context) error
}

// BeforeStart adds a check that a worker makes when its Run begins, before it receives anything. An error ends Run.
func (h *Hooks) BeforeStart(check func(context.Context) error) { h.checks = append(h.checks, check) }

// CheckStart makes the checks of [Hooks.BeforeStart], in their order, up to the first that fails.
func (h *Hooks) CheckStart(ctx context.Context) error {
	for _, check := range h.checks {
		if err := usercode.Contain(func() error { return check(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// OnClockSet adds what a worker does once the wall clock of its machine was set: messages that wait for a time may have
// been sent with the wrong delay.
func (h *Hooks) OnClockSet(do func(context.Context) error) { h.clockSet = append(h.clockSet, do) }

// ClockSet does what [Hooks.OnClockSet] has added. Workers call it, and again after an error.
func (h *Hooks) ClockSet(ctx context.Context) error {
	var faults []error
	for _, do := range h.clockSet {
		faults = append(faults, do(ctx))
	}
	return errors.Join(faults...)
}
