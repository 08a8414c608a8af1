package handling

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
)

// About lists what is handled.
func (t *Table) About() (all []wire.Handled) {
	for _, queue := range t.Queues() {
		for _, h := range t.Of(queue) {
			about := wire.Handled{
				Queue: queue, Name: h.name, Collection: h.collection, Value: h.value, Turns: h.turns != nil,
				Group: h.as.Group, View: h.as.View, Form: h.as.Form, States: h.as.States, Once: h.as.Once, Standing: h.as.Standing, Clock: h.as.Clock,
			}
			if h.folder != nil {
				about.Unrecorded = func(e *channel.Envelope) (without bool) {
					failed := usercode.Contain(func() error { without = h.folder.idempotent(e); return nil })
					return failed != nil || without
				}
				about.Try = func(ctx context.Context, e *channel.Envelope) (wire.Tried, error) { return t.try(ctx, queue, e) }
				about.Key = func(e *channel.Envelope) (string, bool, error) { return t.keyOf(queue, e) }
			}
			for _, about.Kind = range t.codec.Kinds(h.kind) {
				all = append(all, about)
			}
		}
	}
	return all
}

// keyOf returns the key of the document that a message is for, unless its handler ignores it.
func (t *Table) keyOf(queue string, e *channel.Envelope) (key string, ok bool, err error) {
	err = usercode.Contain(func() error {
		d, err := t.Resolve(queue, e)
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
