package handlers

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/internal/wire"
)

// OnClockSet adds what a worker does once the wall clock of its machine was set: messages that wait for a time may have
// been sent with the wrong delay. It is for this module's own packages.
func OnClockSet(_ wire.Inside, r *Registry, do func(context.Context) error) {
	r.clockSet = append(r.clockSet, do)
}

// ClockSet does what [OnClockSet] has added. Workers call it, and again after an error.
func ClockSet(ctx context.Context, r *Registry) error {
	var faults []error
	for _, do := range r.clockSet {
		faults = append(faults, do(ctx))
	}
	return errors.Join(faults...)
}
