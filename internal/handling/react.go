package handling

import (
	"context"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// React registers a reaction. A test doesn't watch its runs, unless f is [Watched].
func React[M channel.Message](r *Registry, as As, name, queue string, f func(context.Context, M) error) {
	if h := register[M](r, as, name, queue); h != nil {
		h.react(r, f == nil, func(ctx context.Context, d *Delivery) error { return f(ctx, d.Message.(M)) })
	}
}

// react makes a handler run a reaction, or reports that there is none.
func (h *Handler) react(r *Registry, none bool, f func(context.Context, *Delivery) error) {
	if none {
		r.Faults.addf("%s: the reaction to %s is nil", h.name, h.kind)
	}
	r.wrap(h, func(ctx context.Context, d *Delivery) error {
		// A middleware may run it again. Each run counts the sends for itself, so they get the same IDs.
		return f(d.handling(ctx), d)
	})
}

// Watched returns a reaction whose runs a test watches; see wire.Outbox. Without a test it returns f.
func Watched[E channel.Message](r *Registry, once bool, f func(context.Context, E) error) func(context.Context, E) error {
	watch := r.Channels.Outbox().Watch
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
