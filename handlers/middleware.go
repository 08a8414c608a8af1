package handlers

import "context"

// Next runs a delivery: a handler, or a middleware around one. For Decide and projections it may run more than once for
// a delivery, when others changed the document meanwhile.
type Next func(ctx context.Context, d *Delivery) error

// Middleware wraps a Next. If it returns nil without calling Next, the message is done and has changed nothing.
type Middleware func(Next) Next

// wrap puts the middleware around the innermost function, once for each handler.
func (r *Registry) wrap(inner Next) Next {
	next := inner
	for i := len(r.cfg.Middleware) - 1; i >= 0; i-- {
		next = r.cfg.Middleware[i](next)
	}
	return next
}
