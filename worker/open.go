package worker

import (
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
)

// opener decodes received messages and finds their handlers.
type opener struct {
	setup
	suspectAt int // so many silent deliveries make a message a suspect
}

func newOpener(with setup) opener {
	return opener{setup: with, suspectAt: max(1, min(suspectAfter, with.all.MaxDeliveries-1))}
}

// open decodes a message. It also resolves it unless it is faulty, a suspect, or claim-checked.
func (o *opener) open(m *message) {
	defer m.opened.Store(true)
	if m.bad = o.decode(m); m.bad == nil && !o.suspicious(m) && m.envelope.DataRef == "" {
		m.bad = o.resolve(m)
	}
}

// suspicious reports that a message may be what kills its workers.
func (o *opener) suspicious(m *message) bool { return m.silentDeliveries >= o.suspectAt }

func (o *opener) decode(m *message) (err error) {
	if m.envelope, err = channel.Decode(m.body); err == nil {
		err = m.envelope.CheckDataRef(o.queue)
	}
	if err != nil {
		return handlers.Poison(handlers.ReasonUndecodable, err)
	}
	m.discardForgedHistory()
	m.silentDeliveries = m.deliveries - 1 - m.envelope.Attempts - m.envelope.HandBacks
	if m.silentDeliveries >= o.all.MaxDeliveries {
		return handlers.Poison(handlers.ReasonDeliveries,
			fmt.Errorf("delivered %d times without an outcome: does it kill its worker? last error: %s", m.silentDeliveries, m.envelope.LastError))
	}
	return nil
}

// resolve finds the handler of a message that has its data.
func (o *opener) resolve(m *message) (err error) {
	m.delivery, err = o.registry.Resolve(o.queue, &m.envelope)
	return err
}
