package handling

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// As is how a handler differs from others that are registered by the same function. The zero As is that of most
// handlers of a program.
type As struct {
	Kind  wire.Kind // of the messages, where the kind of their type depends on its value; empty: the type's own
	Group string    // of handlers.On: under which the record of a collection has the messages, see values.Change
	Once  bool      // a reaction that notes each message, see handlers.ReactOnce
	View  bool      // the fold is a view's

	// Form is the framework's form of the fold's documents, such as "plan". Defaults to none: they are the program's.
	Form string

	// States are the types of what documents of a form hold without a type of its own: the states of a plan's versions.
	States []reflect.Type

	Clock bool // the fold reads the clock: repeated later, it may decide otherwise

	// Standing reports of a message that is due later that nothing waits for it: housekeeping that is always planned
	// ahead. nil: none is so.
	Standing func(*wire.Envelope) bool
}

// kindAs returns the kind that a type of message is registered for.
func kindAs[M wire.Message](as As) wire.Kind {
	if as.Kind != "" {
		return as.Kind
	}
	return wire.KindOf[M]()
}

// register registers a handler that can't run yet. It returns nil after a fault.
func register[M wire.Message](r *Registry, as As, name, queue string) *Handler {
	kind := kindAs[M](as)
	if err := wire.RegisterAs[M](r.Handlers.codec, kind); err != nil {
		r.Faults.addf("%s: %w", name, err)
		return nil
	}
	h := &Handler{
		name: name, queue: queue, kind: kind, as: as, channels: r.Channels, wrapped: r.Wrap != nil,
		timeout: r.Timeout, late: errLate(r.Timeout),
	}
	if err := r.place(h); err != nil {
		r.Faults.Add(err)
		return nil
	}
	r.WarnOfLoss(reflect.TypeFor[M]())
	return h
}

// place adds a handler to the table if a route leads to it.
func (r *Registry) place(h *Handler) error {
	if err := storage.CheckName(h.queue); err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	if !slices.Contains(r.Channels.Routes().Kinds(h.queue), h.kind) {
		return fmt.Errorf("%s: no route takes %s to queue %s: add it to the routes", h.name, h.kind, h.queue)
	}
	return r.Handlers.add(h)
}

// wrap puts the middleware around the innermost function of a handler.
func (r *Registry) wrap(h *Handler, inner func(context.Context, *Delivery) error) {
	if h.run = inner; h.wrapped {
		h.run = r.Wrap(h.name, inner)
	}
}

func errLate(timeout time.Duration) error {
	return fmt.Errorf("the handler took longer than %v", timeout)
}

// WarnOfLoss logs, once for each type, the fields whose content is lost when it is encoded. The route or the collection
// refuses a type that can't be used at all.
func (r *Registry) WarnOfLoss(t reflect.Type) {
	if t == nil || r.judged[t] {
		return
	}
	r.judged[t] = true
	if lost, err := jsonform.Check(t); err == nil && len(lost) > 0 {
		r.Logger.Warn("fields get lost when this type is encoded; export them, or leave them out by json:\"-\"",
			slog.String("type", t.String()), slog.Any("fields", lost))
	}
}

// Upgrade registers an older type of message, which becomes a newer one when it is received.
func Upgrade[Old, New wire.Message](r *Registry, f func(Old) New) {
	if err := wire.Upgrade(r.Handlers.codec, f); err != nil {
		r.Faults.Add(err)
	}
}
