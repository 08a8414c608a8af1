package handling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/values"
)

// tryFold returns what a fold would make of a document as it stands. It writes nothing.
func tryFold[V any, M channel.Message](c *values.Collection[V], as As, f func(V, *channel.Envelope, M) (V, []channel.Message, error)) func(context.Context, *Delivery) (wire.Tried, error) {
	return func(ctx context.Context, d *Delivery) (t wire.Tried, err error) {
		t.Key = d.key
		s, err := c.Get(ctx, d.key, "")
		if err != nil {
			return t, err
		}
		if t.Before, err = jsonform.Encode(s.Value); err != nil {
			return t, err
		}
		v, emissions, err := f(s.Value, d.Envelope, d.Message.(M))
		switch {
		case errors.Is(err, values.ErrUnchanged):
			t.After = t.Before
			return t, nil
		case err != nil:
			return t, err
		}
		if t.After, err = jsonform.Encode(v); err != nil {
			return t, err
		}
		for i, m := range emissions {
			if _, row := m.(wire.Row); row {
				continue
			}
			e, err := wire.ComposeEmission(d.Envelope, as.Group, i, m, c.Source(d.key), d.key, time.Now())
			if err != nil {
				return t, err
			}
			t.Emits = append(t.Emits, e)
		}
		return t, nil
	}
}

// try tells what the handler of a message would do.
func (t *Table) try(ctx context.Context, queue string, e *channel.Envelope) (wire.Tried, error) {
	limit := time.Duration(usercode.UntilDone)
	if h := t.find(queue, e.Kind); h != nil && h.folder != nil {
		limit = h.folder.timeout + verdict.GiveUpAfter
	}
	var got wire.Tried // the goroutine's own until it has ended
	var failed error
	r := usercode.Start(func(r *usercode.Run) {
		failed = r.Call(0, func() error {
			d, err := t.Resolve(queue, e)
			if err != nil || d.ignored {
				got.Ignored = err == nil
				return err
			}
			got, err = d.Handler.try(ctx, d)
			return err
		})
	})
	if _, hangs := r.Watch(ctx, limit); hangs {
		return wire.Tried{}, fmt.Errorf("handlers: the decision takes longer than %v", limit)
	}
	if fault := r.Fault(); fault != nil {
		return wire.Tried{}, fmt.Errorf("handlers: %w", fault)
	}
	return got, failed
}
