package handlers

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/internal/handling"
)

// A Delivery is one message on its way through its handler, as middleware sees it. It is a struct:
//
//	Envelope *channel.Envelope // has its data
//	Message  any               // decoded, upgraded
//	Queue    string
//	Handler  *Handler // its methods are Name and Kind
type Delivery = handling.Delivery

// A Handler is a function that is registered for a kind, as middleware sees it.
//
//	Name() string // such as "decide orders"
//	Kind() channel.Kind
type Handler = handling.Handler

// Next handles a delivery: a handler, or a middleware around one.
type Next func(ctx context.Context, d *Delivery) error

// Middleware wraps a Next. It runs once a delivery, around all that the delivery's handling takes: also around the
// unit of work of a fold, however often that is repeated.
//
//   - Next returns the final result: the error of the handler, of its fold, or of the unit of work that it was folded
//     in. A panic in a fold comes as an error, too. A panic in a reaction passes through the middleware.
//   - The error that the outermost middleware returns is the verdict. So a message is deleted only after its middleware
//     has returned nil. If a middleware fails after Next has returned nil, the message comes again, and a fold finds
//     that it was applied. A middleware that turns an error into nil deletes a message that may not be handled: let
//     errors pass that you don't know.
//   - A middleware that returns nil without calling Next ends the message. Nothing is folded; the document remembers
//     the message as applied. If it returns an error instead, nothing is folded or remembered.
//   - The messages of a [Reply] are sent after the outermost middleware has returned nil. So Next returns before that.
//   - Next may be called again. A reaction runs again. A fold doesn't; Next returns the same result.
//   - The context that a middleware gives to Next is that of the middleware within it, and of a reaction. A fold has
//     none: it neither ends with that context nor returns before its unit of work.
//   - Messages for one document have their middleware at the same time, and are folded together. One that has called
//     Next waits for the others up to 50 milliseconds. So a middleware may hold a lock around Next, but then each of
//     these messages is folded by itself.
//   - A middleware that panics, ends its goroutine or hangs fails its own delivery; the others are folded without it.
//     Before Next and after it, it has Config.Timeout; then its context ends, and 10 seconds later it is given up.
//   - A middleware doesn't change the Delivery.
type Middleware func(Next) Next

// wrap returns what puts middleware around the innermost function of a handler; nil without middleware.
func wrap(all []Middleware, faults *handling.Faults) func(name string, inner func(context.Context, *Delivery) error) func(context.Context, *Delivery) error {
	for i, m := range all {
		if m == nil {
			faults.Add(fmt.Errorf("Middleware %d of %d is nil", i+1, len(all)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(name string, inner func(context.Context, *Delivery) error) func(context.Context, *Delivery) error {
		next := Next(inner)
		for i, m := range slices.Backward(all) {
			if m == nil {
				continue
			}
			if next = m(next); next == nil {
				faults.Add(fmt.Errorf("%s: Middleware %d of %d returned nil", name, i+1, len(all)))
			}
		}
		return next
	}
}
