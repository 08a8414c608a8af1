package handlers

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/once"
)

// React registers a reaction of a subscriber group to a kind. The group's queue must be among the kind's
// routes.
//
// It remembers no message. So it runs for every copy of one, and it doesn't check whether two messages with one ID have
// the same content: it runs for both. [ReactOnce] checks that, and is for effects that should not be repeated.
func React[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	handling.React(r.in, handling.As{}, "react "+group, group, handling.Watched(r.in, false, f))
}

// ReactOnce registers a reaction whose effect should not be repeated: an e-mail, a payment. It notes each message that
// the group has handled, by its ID, before and after f.
//
//   - A copy of a message that is done is skipped.
//   - A copy of a message that is being handled waits.
//   - Another message with the same ID is refused, as values.ErrContentDiffers.
//   - When f fails, the note is taken back, and the next attempt begins at once.
//   - When f returns [Poison] with [ReasonOutcomeUnknown], as package guard does, the note says so. Each copy goes to
//     the poison queue, too, until an operator sends one back. That copy runs f again.
//   - While that note, or the note that f is done, can't be written, the process knows so of its last 4096 such
//     messages, and goes on trying.
//
// While f runs, the note begun is renewed every 10 seconds, until f's context ends. That ends when 25 seconds have
// passed without a renewal. The success of an f that goes on counts when it comes. A copy takes over when its worker
// has seen the note unchanged for 35 seconds. The copy is delivered every 10 seconds, and takes no handler's place in
// between. Each worker that it is delivered to counts for itself, so with several workers it may take some more
// deliveries. Both times are elapsed time on one machine; no wall clock decides.
//
// One gap remains that no guard can close from this side. If the process dies after the effect and before the note, the
// effect is repeated when a copy takes over. Give the outside world the message's ID where it can recognise a repeat;
// channel.Handled returns it.
//
// Notes are kept for 30 days after the times of their messages, and for 60 days if a time is not the ID's own but
// stands beside it. An older message can't be judged and goes to the poison queue, as values.ErrTooOld.
// channel.Identified says what that means for an ID that you choose.
func ReactOnce[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	guarded := f
	if f != nil { // else React reports it
		notes, watched := once.New(r.in.Channels.Store(), group), handling.Watched(r.in, true, f)
		guarded = func(ctx context.Context, m E) error {
			return notes.Do(ctx, func(ctx context.Context) error { return watched(ctx, m) })
		}
	}
	handling.React(r.in, handling.As{Once: true}, "react "+group, group, guarded)
}

// Reply registers a reaction that answers by messages: a [React] whose messages are sent, and whose own message is
// deleted, in one unit of work. Where a reaction sends by channel.Send instead, these are two writes.
//
//   - The messages are sent if f returns no error, and only then. With middleware they are sent after the outermost one
//     has returned nil; where Next ran more than once, those of the last run are sent.
//   - f has effects and may run again, like any reaction, and like [React] it compares no contents. The messages of a
//     repeat have the same IDs, as those of channel.Send have under a handler's context. So a copy is a repeat that the
//     next stage recognises.
//   - emits has a value of every type of message that f can return, as for [Decide].
//   - Messages that can't be sent are a failed attempt: one that is too large for the store, say.
func Reply[E channel.Message](r *Registry, group string, f func(context.Context, E) ([]channel.Message, error), emits ...channel.Message) {
	name := "reply " + group
	declared := declare(r, fmt.Sprintf("%s: %s", name, channel.KindOf[E]()), emits)
	var answer func(context.Context, *channel.Envelope, E) ([]channel.Message, error)
	if f != nil {
		answer = func(ctx context.Context, _ *channel.Envelope, m E) ([]channel.Message, error) {
			messages, err := f(ctx, m)
			if err == nil {
				err = declared.check(messages)
			}
			return messages, err
		}
	}
	handling.Reply(r.in, handling.As{}, name, group, answer)
}

// Upgrade registers an older type of message, which becomes a newer one when it is received. Register the newer one's
// handlers first.
func Upgrade[Old, New channel.Message](r *Registry, f func(Old) New) { handling.Upgrade(r.in, f) }
