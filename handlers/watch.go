package handlers

import (
	"context"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// watched returns a reaction whose runs a test watches; see wire.Outbox. Without a test it returns f.
func watched[E channel.Message](r *Registry, once bool, f func(context.Context, E) error) func(context.Context, E) error {
	watch := r.channels.Outbox().Watch
	if watch == nil || f == nil {
		return f
	}
	return func(ctx context.Context, m E) error {
		h, ok := wire.HandlingUnder(ctx)
		if !ok {
			return f(ctx, m)
		}
		done := watch(h, once)
		err := f(ctx, m)
		done(err)
		return err
	}
}
