package worker

import (
	"fmt"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
)

// opener decodes received messages and finds their handlers.
type opener struct {
	setup
	suspectAt int // so many silent deliveries make a message a suspect
}

func newOpener(with setup) *opener {
	return &opener{setup: with, suspectAt: max(1, min(suspectAfter, with.all.MaxDeliveries-1))}
}

// decoding names the user's code that resolve calls.
const decoding = "the code that decodes the message or finds its key"

// resolved is what the user's code makes of a message before it is handled.
type resolved struct {
	delivery *handling.Delivery
	err      error
}

// open decodes a message.
func (o *opener) open(m *message) {
	m.bad = o.decode(m)
	m.opened.Store(true)
}

// ready reports that a decoded message can be resolved: it is due, and neither faulty, nor a suspect, nor to be
// fetched.
func (o *opener) ready(m *message) bool {
	return m.bad == nil && !m.early && !o.suspicious(m) && !o.toFetch(m)
}

// toFetch reports that a message needs a request to the store before it can be resolved.
func (o *opener) toFetch(m *message) bool {
	return m.envelope.DataRef != "" || o.mayBeGivenUp(m) || o.registry.Channels.Outbox().Cancellations().MayConcern(&m.envelope)
}

// mayBeGivenUp reports that a worker may have begun to move a message to the poison queue. Where a unit of work is not
// atomic, it may have died or failed on the way. The program may have said then that the message is given up, so no
// handler may run.
func (o *opener) mayBeGivenUp(m *message) bool {
	return m.silentDeliveries > 0 && !o.store.Atomic() && o.registry.Compensations.Has(o.queue, m.envelope.Kind)
}

// suspicious reports that a message may be what kills its workers.
func (o *opener) suspicious(m *message) bool { return m.silentDeliveries >= o.suspectAt }

func (o *opener) decode(m *message) (err error) {
	if m.envelope, err = wire.Decode(m.body); err != nil {
		return handlers.Poison(handlers.ReasonUndecodable, err)
	}
	m.discardForgedHistory()
	if err := m.envelope.CheckDataRef(o.queue); err != nil {
		return handlers.Poison(handlers.ReasonUndecodable, err)
	}
	if m.envelope.Early(m.received) > 0 {
		m.early = true // nothing else is judged before it is due
		return nil
	}
	m.silentDeliveries = m.deliveries - 1 - m.envelope.Attempts - m.envelope.HandBacks - m.envelope.Hops
	if m.silentDeliveries >= o.all.MaxDeliveries {
		err = handlers.Poison(handlers.ReasonDeliveries,
			fmt.Errorf("delivered %d times without an outcome: does it kill its worker? last error: %s", m.silentDeliveries, m.envelope.LastError))
		users := o.registry.Compensations.Has(o.queue, m.envelope.Kind) || o.registry.Handlers.KeyInBody(o.queue, m.envelope.Kind)
		if users && m.silentDeliveries < o.all.MaxDeliveries+compensations {
			m.doomed = err // the user's code gets it once more, and may be what kills the worker
			return nil
		}
	}
	return err
}

// guarded resolves one message, whatever the user's code does.
func (o *opener) guarded(hangs *hung, m *message) {
	usercode.Guard(decoding, 1, func(int) resolved {
		return o.resolve(m)
	}, func(_ int, r resolved) {
		m.delivery, m.bad = r.delivery, r.err
	}, func(_ int, err error) {
		hangs.count(err)
		m.bad = err
	})
}

// toTurn reports that a message that fails before its handler takes its turn to fail, so that its turn learns of it.
func (o *opener) toTurn(m *message) bool {
	m.delivery = handling.Failing(o.registry, o.queue, &m.envelope, m.delivery, m.bad)
	return m.delivery != nil
}

// resolve finds the handler of a message that has its data. It calls the user's code, and changes nothing.
func (o *opener) resolve(m *message) resolved {
	d, err := o.registry.Handlers.Resolve(o.queue, &m.envelope)
	return resolved{d, err}
}
