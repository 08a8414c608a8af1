package handling

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Delivery is one received message on its way through its handler. Users know it as handlers.Delivery.
type Delivery struct {
	Envelope *channel.Envelope // has its data
	Message  any               // decoded, upgraded
	Queue    string
	Handler  *Handler // its methods are Name and Kind

	span       trace.Span // of this delivery, by its worker; nil: no spans are made
	deliveries int        // how often the message was delivered when it was due, with this time; 0: nobody has counted
	came       int        // how often the store has delivered it, with this time; of one that takes a turn
	arrived    time.Time  // when the store took the message, or when it was due; of one that takes a turn
	failed     error      // why its handler can't run: it takes its turn only to fail; see Failing

	key     string   // of the document that the message is for, where its handler folds; or of its turn
	ignored bool     // no document is for it: it is handled alone, and its handler does nothing
	answer  answer   // of a reaction that replies
	passage *passage // through the middleware, where its handler folds
	skipped bool     // a middleware has ended it without its fold
	folded  bool     // its fold has run before

	doubts atomic.Int32 // calls of its handler whose effect may have happened if it never returns
}

// TraceTo makes the delivery's spans children of a span of its worker. Without it no spans are made.
func (d *Delivery) TraceTo(span trace.Span) { d.span = span }

// Count says how often the message was delivered when it was due, with this time.
func (d *Delivery) Count(n int) { d.deliveries = n }

// Arrive says when the store took the message, or when it was due, and how often the store has delivered it, with this
// time. It is for deliveries that take a turn.
func (d *Delivery) Arrive(at time.Time, came int) { d.arrived, d.came = at, came }

// Group names the document that a delivery is for, or the turn that it takes. Deliveries of one group are handled
// together: in one fold, or one after the other.
type Group struct {
	folder *folder
	turns  *turns
	key    string
}

// Group returns the delivery's group; ok is false for a delivery that is handled alone.
func (d *Delivery) Group() (g Group, ok bool) {
	if d.ignored {
		return Group{}, false
	}
	h := d.Handler
	return Group{folder: h.folder, turns: h.turns, key: d.key}, h.folder != nil || h.turns != nil
}

// An Outcome is what became of a delivery: the error of its handling, and whether the unit of work has ended it.
//
//	Err   error
//	Ended Ended
type Outcome = values.Outcome

// Ended says what the unit of work made of a delivery.
type Ended = values.Ended

// See the constants of the same names in package values. Only a delivery without an error is Deleted or Stale.
const (
	StillThere = values.StillThere
	Deleted    = values.Deleted
	Stale      = values.Stale
)

// A Commit commits the unit of work of a fold, and in it ends the deliveries with these indices. See [values.Commit].
type Commit = values.Commit

// handling returns the context of a delivery's handler.
func (d *Delivery) handling(ctx context.Context) context.Context {
	return wire.WithDelivery(ctx, d.Envelope, d.Queue, d.Handler.channels, d.deliveries, &d.doubts)
}

// hangs makes the error of a delivery's handler that was given up.
func (d *Delivery) hangs(r *usercode.Run, limit time.Duration, dump []byte) *verdict.HangError {
	e := r.Hang(theHandler, limit, dump)
	e.Unsure = d.doubts.Load() > 0
	return e
}

// keyOfRefused gives the delivery of a message that its own Check refuses its key. It returns nil for one that takes no
// turn, or has none. The function for the key may rely on what Check refuses, and panic.
func (d *Delivery) keyOfRefused() (keyed *Delivery) {
	if d.Handler.turns == nil {
		return nil
	}
	_ = contain.Do(func() {
		if key, ok := d.Handler.key(d.Envelope, d.Message); ok && storage.CheckKey(key) == nil {
			d.key, keyed = key, d
		}
	})
	return keyed
}

const theHandler = "the handler"
