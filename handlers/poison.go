package handlers

import (
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
)

// Poisoned says why a message goes to the poison queue. It is also in the entry there. It is a struct:
//
//	ID         string
//	Queue      string // that it came from: of an event, the subscriber group's
//	Reason     string // Reason…, or that of Poison
//	Error      string
//	Attempts   int       // how often a handler said no, with the last time
//	Deliveries int       // how often it was delivered
//	First      time.Time // of the first failure
//	Last       time.Time // when it was given up
type Poisoned = handling.Poisoned

// OnPoison registers the compensation for a kind of messages: f returns the messages that the program sends when one of
// that kind goes to the poison queue, for any reason and from any queue of this registry.
//
//   - Look at why.Reason: a message that is too old, or whose ID another content has, is compensated, too, although the
//     original may be applied.
//   - f is pure. emits has a value of every type of message that f can return, as for [Decide]. A delay counts from
//     why.Last.
//   - The entry in the poison queue, the compensation and the end of the message are one unit of work. Where the store
//     isn't atomic, a worker that finds the entry of another, which died, ends that unit and runs no handler.
//     If an operator discards the entry before that, the handler runs although the compensation may be sent.
//   - The IDs of a compensation follow from the message's ID and content, and from its queue. So a message that is
//     retried and poisoned again has the same compensation, and it is done once. Leave out of it what may differ then,
//     such as why.Error: other content under the same ID is refused.
//   - f gets the message decoded and upgraded, even if its own Check refuses it. It isn't called for a message whose
//     body is gone or doesn't fit its type.
//   - f gets a message that kills its workers, too; its handler doesn't run then. If f kills them three times, the
//     message goes to the poison queue without a compensation.
//   - When f fails, or returns messages that can't be sent, the message goes to the poison queue without a
//     compensation. The log and the entry (poison.Entry) say why.
func OnPoison[M channel.Message](r *Registry, f func(m M, why Poisoned) []channel.Message, emits ...channel.Message) {
	declared := declare(r, handling.NameOnPoison(channel.KindOf[M]()), emits)
	var compensation func(*channel.Envelope, M, Poisoned) ([]channel.Message, error)
	if f != nil {
		compensation = func(_ *channel.Envelope, m M, why Poisoned) ([]channel.Message, error) {
			messages := f(m, why)
			return messages, declared.check(messages)
		}
	}
	handling.OnPoison(r.in, handling.As{}, "", compensation)
}
