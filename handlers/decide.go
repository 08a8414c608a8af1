package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
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
	name := "decide " + c.Name()
	queue, err := r.channels.Routes().CommandQueue(kind)
	if err != nil {
		if _, event := r.channels.Routes().EventGroups(kind); event == nil {
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
	emitting(r, name, queue, c, key, decide, emits)
}

// On registers the handler of a subscriber group for an event kind that changes a value object: a [Decide] for events.
// The group's queue must be among the event's routes. Each group handles each event once: if two groups take the same
// event to the same value object, both change it, and both emit. Events come in any order.
func On[V any, E channel.Message](r *Registry, group string, c *values.Collection[V], key func(E) string, decide func(V, E) (V, []channel.Message, error), emits ...channel.Message) {
	kind := channel.KindOf[E]()
	name := "on " + c.Name()
	if _, err := r.channels.Routes().CommandQueue(kind); err == nil {
		r.fault("%s: %s: the routes have it as a command: use handlers.Decide, or channel.Event in the routes", name, kind)
		return
	}
	if h := emitting(r, name, group, c, key, decide, emits); h != nil {
		h.group = group
	}
}

// emitting registers a fold that may emit messages of the declared types.
func emitting[V any, M channel.Message](r *Registry, name, queue string, c *values.Collection[V], key func(M) string, decide func(V, M) (V, []channel.Message, error), emits []channel.Message) *Handler {
	kind := channel.KindOf[M]()
	if decide == nil {
		r.fault("%s: %s: the decision is nil", name, kind)
	}
	declared := r.declare(fmt.Sprintf("%s: %s", name, kind), emits)
	return fold(r, name, queue, kind, c, keyOf(key), func(v V, _ *channel.Envelope, m M) (V, []channel.Message, error) {
		v, emissions, err := decide(v, m)
		if err == nil {
			err = declared.check(emissions)
		}
		return v, emissions, err
	})
}

// declared are the kinds that a handler may emit.
type declared struct {
	by    string
	kinds map[channel.Kind]bool
}

// declare checks the types that a handler may emit against the routes.
func (r *Registry) declare(by string, emits []channel.Message) declared {
	d := declared{by: by, kinds: map[channel.Kind]bool{}}
	for i, m := range emits {
		if m = wire.Unwrap(m); wire.IsNil(m) {
			r.fault("%s: emission %d of %d is nil; want a value of its type", by, i+1, len(emits))
			continue
		}
		m = wire.Unwrap(m)
		k := m.Kind()
		d.kinds[k] = true
		r.warnOfLoss(reflect.TypeOf(m))
		if !r.channels.Routes().Has(k) {
			r.fault("%s: it emits %s, which has no route: add channel.Event for it to the routes, or channel.Command if it is a command", by, k)
		}
	}
	return d
}

// check refuses messages that are nil, or whose kinds are not declared, or that refuse themselves. Call it as the
// user's code: it runs some.
func (d declared) check(emissions []channel.Message) error {
	for i, m := range emissions {
		if wire.IsNil(m) {
			return Poison("nil emission", fmt.Errorf("%s: emission %d of %d is nil", d.by, i+1, len(emissions)))
		}
		k := m.Kind()
		if !d.kinds[k] {
			return Poison("undeclared emission", fmt.Errorf("%s: it emits %s: name a value of that type in the last arguments of its registration", d.by, k))
		}
		err := wire.CheckMessage(m)
		if err == nil {
			err = wire.CheckDelay(m, time.Now())
		}
		if err != nil {
			return Poison("refused emission", fmt.Errorf("%s: emission %d of %d, %s: %w", d.by, i+1, len(emissions), k, err))
		}
	}
	return nil
}

// Fold registers a handler that folds the messages of a queue into a collection. It is for this module's own packages:
// a program uses [Decide], [On], and the projections of package views.
//
//   - key names the document. Where ok is false, the message is not for this handler: it is deleted without a fold.
//   - x.Kind is the kind of the messages, where that of M depends on its value.
//   - Two collections of one name are one, so that a worker doesn't race with itself. The two must be the same in
//     everything that values.Collection.SameAs compares.
func Fold[V any, M channel.Message](x wire.Inside, r *Registry, name, queue string, c *values.Collection[V],
	key func(*channel.Envelope, M) (key string, ok bool), f func(V, *channel.Envelope, M) (V, []channel.Message, error)) {
	if h := fold(r, name, queue, wire.KindIn[M](x), c, key, f); h != nil {
		h.view, h.form, h.standing, h.clock = x.View, x.Form, x.Standing, x.Clock
	}
}

// keyOf makes a function of a message one that Fold takes. A nil function stays nil.
func keyOf[M channel.Message](key func(M) string) func(*channel.Envelope, M) (string, bool) {
	if key == nil {
		return nil
	}
	return func(_ *channel.Envelope, m M) (string, bool) { return key(m), true }
}

// fold is Fold, and returns the handler, or nil after a fault.
func fold[V any, M channel.Message](r *Registry, name, queue string, kind channel.Kind, c *values.Collection[V],
	key func(*channel.Envelope, M) (string, bool), f func(V, *channel.Envelope, M) (V, []channel.Message, error)) *Handler {
	if err := c.Check(); err != nil {
		r.fault("%s: %w", name, err)
	}
	if key == nil || f == nil {
		r.fault("%s: the function for the key of %s is nil, or the one that folds it", name, kind)
	}
	r.warnOfLoss(reflect.TypeFor[V]())
	h := register[M](r, name, queue, kind)
	if h == nil {
		return nil
	}
	h.collection, h.value = c.Name(), reflect.TypeFor[V]()
	h.decode = r.codec.Decode
	h.key = func(e *channel.Envelope, m any) (string, bool) { return key(e, m.(M)) }
	h.fold = func(v V, e *channel.Envelope, m any) (V, []channel.Message, error) { return f(v, e, m.(M)) }
	h.folder = r.folders[c.Name()]
	if h.folder == nil {
		h.folder = newFolder(c, r.cfg)
		r.folders[c.Name()] = h.folder
	} else if err := c.SameAs(h.folder.collection); err != nil {
		r.fault("%s: %w: make it once and hand it to all that fold into it", name, err)
	}
	h.run = r.wrap(name, func(_ context.Context, d *Delivery) error {
		if d.ignored {
			return nil
		}
		return d.passage.inside()
	})
	return h
}
