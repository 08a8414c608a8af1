package handlers

import (
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// About lists what the registry handles. It is for this module's own packages: its type is internal.
func (r *Registry) About() (all []wire.Handled) {
	for _, queue := range r.Queues() {
		for _, h := range r.Handlers(queue) {
			about := wire.Handled{Queue: queue, Name: h.name, Collection: h.collection, Group: h.group, View: h.view, Form: h.form, Value: h.value, Once: h.once, Turns: h.turns != nil, Standing: h.standing, Clock: h.clock}
			if h.folder != nil {
				about.Unrecorded = func(e *channel.Envelope) (without bool) {
					failed := Contain(func() error { without = h.folder.idempotent(e); return nil })
					return failed != nil || without
				}
				about.Key = func(e *channel.Envelope) (string, bool, error) { return r.keyOf(queue, e) }
			}
			for _, about.Kind = range r.codec.Kinds(h.kind) {
				all = append(all, about)
			}
		}
	}
	return all
}

// keyOf returns the key of the document that a message is for, unless its handler ignores it.
func (r *Registry) keyOf(queue string, e *channel.Envelope) (key string, ok bool, err error) {
	err = Contain(func() error {
		d, err := r.Resolve(queue, e)
		if err == nil {
			key, ok = d.key, !d.ignored
		}
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("handlers: %w", err)
	}
	return key, ok, nil
}
