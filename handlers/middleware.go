package handlers

import "context"

// Next runs a delivery: a handler, or what a middleware made of one. For Decide and projections it may be
// called more than once for a delivery, when others changed the document meanwhile.
type Next func(ctx context.Context, d *Delivery) error

// Middleware wraps what runs a delivery. One that returns nil without calling Next ends the message: it is done
// and has changed nothing.
type Middleware func(Next) Next

// wrap puts the middleware around the innermost function, once for each handler.
func (r *Registry) wrap(inner Next) Next {
	next := inner
	for i := len(r.cfg.Middleware) - 1; i >= 0; i-- {
		next = r.cfg.Middleware[i](next)
	}
	return next
}
