package handlers

import (
	"fmt"
	"reflect"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// declared are the kinds that a handler may emit.
type declared struct {
	by    string
	kinds map[channel.Kind]bool
}

// declare checks the types that a handler may emit against the routes.
func declare(r *Registry, by string, emits []channel.Message) declared {
	d := declared{by: by, kinds: map[channel.Kind]bool{}}
	for i, m := range emits {
		if m = wire.Unwrap(m); wire.IsNil(m) {
			r.fault("%s: emission %d of %d is nil; want a value of its type", by, i+1, len(emits))
			continue
		}
		m = wire.Unwrap(m)
		k := m.Kind()
		d.kinds[k] = true
		r.in.WarnOfLoss(reflect.TypeOf(m))
		if !r.in.Channels.Routes().Has(k) {
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
