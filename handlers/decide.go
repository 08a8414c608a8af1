package handlers

import (
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/values"
)

// Decide registers the one handler of a command kind. decide changes the value object that key names. It emits events
// and commands; channel.After and channel.At make those that are due later.
//
//   - decide is pure: the same value and command always give the same result.
//   - It may change what the value refers to (maps, slices) only where it succeeds.
//   - It sees the value as JSON gives it back; see package values.
//   - It returns values.ErrUnchanged for a command that changes nothing. Such a command costs no write, but no record
//     is kept of it: another copy is decided again.
//   - Its emissions are part of the unit of work: they are sent if the value is written, and each is one message,
//     however often the command comes. A delay counts from the first decision.
//
// emits has a value of every type of message that decide can emit, so that a missing route is found at start-up.
func Decide[V any, C channel.Message](r *Registry, c *values.Collection[V], key func(C) string, decide func(V, C) (V, []channel.Message, error), emits ...channel.Message) {
	kind := channel.KindOf[C]()
	if c == nil {
		r.fault("decide %s: the collection is nil", kind)
		return
	}
	name := "decide " + c.Name()
	queue, err := r.in.Channels.Routes().CommandQueue(kind)
	if err != nil {
		if _, event := r.in.Channels.Routes().EventGroups(kind); event == nil {
			err = errors.New("the routes have it as an event: use handlers.On for a subscriber group's queue, or channel.Command in the routes")
		}
		r.fault("%s: %s: %w", name, kind, err)
		return
	}
	if r.decided[kind] {
		r.fault("%s: %s: registered twice; a command has one handler", name, kind)
		return
	}
	r.decided[kind] = true
	emitting(r, handling.As{}, name, queue, c, key, decide, emits)
}

// On registers the handler of a subscriber group for an event kind that changes a value object: a [Decide] for events.
// The group's queue must be among the event's routes. Each group handles each event once: if two groups take the same
// event to the same value object, both change it, and both emit. Events come in any order.
func On[V any, E channel.Message](r *Registry, group string, c *values.Collection[V], key func(E) string, decide func(V, E) (V, []channel.Message, error), emits ...channel.Message) {
	kind := channel.KindOf[E]()
	if c == nil {
		r.fault("on %s: the collection is nil", kind)
		return
	}
	name := "on " + c.Name()
	if _, err := r.in.Channels.Routes().CommandQueue(kind); err == nil {
		r.fault("%s: %s: the routes have it as a command: use handlers.Decide, or channel.Event in the routes", name, kind)
		return
	}
	emitting(r, handling.As{Group: group}, name, group, c, key, decide, emits)
}

// emitting registers a fold that may emit messages of the declared types.
func emitting[V any, M channel.Message](r *Registry, as handling.As, name, queue string, c *values.Collection[V], key func(M) string, decide func(V, M) (V, []channel.Message, error), emits []channel.Message) {
	kind := channel.KindOf[M]()
	if decide == nil {
		r.fault("%s: %s: the decision is nil", name, kind)
	}
	declared := declare(r, fmt.Sprintf("%s: %s", name, kind), emits)
	var keyOf func(*channel.Envelope, M) (string, bool)
	if key != nil {
		keyOf = func(_ *channel.Envelope, m M) (string, bool) { return key(m), true }
	}
	handling.Fold(r.in, as, name, queue, c, keyOf, func(v V, _ *channel.Envelope, m M) (V, []channel.Message, error) {
		v, emissions, err := decide(v, m)
		if err == nil {
			err = declared.check(emissions)
		}
		return v, emissions, err
	})
}
