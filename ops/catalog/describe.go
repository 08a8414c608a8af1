package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
)

// Bounds of a description, in bytes.
const (
	maxDocument = 1 << 20
	maxSchema   = 64 << 10 // of one kind
	maxExample  = 16 << 10 // of one kind
)

// Describe returns what [Publish] would publish now. All handlers must be registered by then.
func Describe(r *handlers.Registry, p Program) Description {
	routed := r.Channels().Routes().All()
	d := Description{Program: p, Queues: []Queue{}, Kinds: []Kind{}, Collections: []Collection{}}
	place := map[string]int{} // of a queue in d.Queues
	lanes := r.Channels().Routes().Lanes()
	for _, name := range r.Channels().Routes().Queues() {
		place[name] = len(d.Queues)
		x := lanes[name]
		d.Queues = append(d.Queues, Queue{Name: name, Lanes: x.Lanes, Priorities: x.Priorities, Guard: r.Inside().Guards[name], Kinds: r.Channels().Routes().Kinds(name), Handlers: []Handler{}})
	}
	for _, h := range r.Inside().Handlers.About() {
		q := &d.Queues[place[h.Queue]] // a handler has a route
		q.Handlers = append(q.Handlers, Handler{Kind: h.Kind, Name: h.Name, Collection: h.Collection, Group: h.Group, Once: h.Once, Turns: h.Turns})
		if c := (Collection{Name: h.Collection, View: h.View, Form: h.Form}); c.Name != "" {
			if c.Form == "" {
				c.Type = jsonform.Print(h.Value)
			}
			c.Schema = schemaOf(h.Value)
			for _, t := range h.States {
				if s := schemaOf(t); s != nil && !slices.ContainsFunc(c.States, func(x json.RawMessage) bool { return string(x) == string(s) }) {
					c.States = append(c.States, s)
				}
			}
			if !slices.ContainsFunc(d.Collections, func(x Collection) bool { return x.Name == c.Name && x.Noun() == c.Noun() && x.Type == c.Type }) {
				d.Collections = append(d.Collections, c)
			}
		}
	}
	slices.SortFunc(d.Collections, func(a, b Collection) int { return cmp.Compare(a.Name, b.Name) })
	for _, k := range routed {
		for _, q := range k.Queues {
			d.Queues[place[q]].Group = !k.Command
		}
		kind := Kind{Kind: k.Kind, Command: k.Command, Queues: k.Queues, Example: exampleOf(k),
			ChoosesID: k.Message.Implements(reflect.TypeFor[channel.Identified]()), Checks: k.Message.Implements(reflect.TypeFor[channel.Checked]())}
		kind.Schema = schemaOf(k.Message)
		d.Kinds = append(d.Kinds, kind)
	}
	return d
}

// schemaOf returns the schema of a type; nil if that is too large.
func schemaOf(t reflect.Type) json.RawMessage {
	schema, err := jsonform.Schema(t)
	if err != nil || len(schema) > maxSchema {
		return brief(schema)
	}
	return schema
}

// brief is what stands for a schema for which there is no room. Where some of the content is secret, all of it is then.
func brief(schema json.RawMessage) json.RawMessage {
	if bytes.Contains(schema, []byte(`"writeOnly":true`)) {
		return json.RawMessage(`{"writeOnly":true}`)
	}
	return nil
}

// exampleOf returns an example of a kind, or nil. It encodes values, which may call the user's methods: first one that
// shows all members, and then, where that is no good, the zero value.
func exampleOf(k wire.RoutedKind) (example json.RawMessage) {
	usercode.Guard("the code that encodes an example of "+string(k.Kind), 2, func(i int) (form []byte) {
		switch {
		case i == 0:
			form, _ = jsonform.Encode(jsonform.Example(k.Message)) // a kind may have no example
		case example == nil:
			form, _ = jsonform.Encode(jsonform.Zero(k.Message))
		}
		return form
	}, func(_ int, form []byte) {
		if len(form) > 0 && len(form) <= maxExample {
			example = form
		}
	}, func(int, error) {})
	return example
}

// encode returns the document. It leaves out what the bounds leave no room for.
func (d Description) encode() ([]byte, error) {
	b, err := json.Marshal(d)
	for _, drop := range []func(*Kind){func(k *Kind) { k.Example = nil }, func(k *Kind) { k.Schema = brief(k.Schema) }} {
		if err != nil || len(b) <= maxDocument {
			break
		}
		d.Kinds, d.Collections = slices.Clone(d.Kinds), slices.Clone(d.Collections)
		for i := range d.Kinds {
			drop(&d.Kinds[i])
		}
		for i := range d.Collections {
			c := &d.Collections[i]
			states := c.States
			c.Schema, c.States = brief(c.Schema), nil
			for _, s := range states {
				if s = brief(s); s != nil {
					c.States = append(c.States, s)
				}
			}
		}
		b, err = json.Marshal(d)
	}
	return b, err
}
