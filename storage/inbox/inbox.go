// Package inbox waits for the messages of a queue. A message comes at once where the store rings or hands it over as
// it is sent, and by polling where the store doesn't. The polls are rare while nothing comes.
//
//	in := inbox.Open(store, "mails", inbox.Config{})
//	defer in.Close()
//	batch, err := in.Receive(ctx, 100, 30*time.Second) // waits until there is something, or ctx ends
//
// A consumer that has to do something between two looks uses the two halves of Receive: [Inbox.Look] asks the store
// once, and [Inbox.Wait] waits until the next look is due, or something is handed over.
//
// # How it waits
//
//   - A look that brings all it asked for is followed by the next one at once. So is a look that brings something,
//     where the store doesn't ring.
//   - A ring ends the wait.
//   - Otherwise the time between two looks doubles, from 20 ms up to the poll interval. It begins again at 20 ms after
//     a message that came without a ring, because more of them may come. While rings work, it stays the longest.
//   - A look that fails is repeated after 0.1 to 10 seconds, whatever rings. Where only a part of the queue fails
//     (storage.ErrPartial), the next look is due at once.
//
// Intervals are jittered, so that idle consumers don't look all at once.
//
// # Laws
//
//   - The end of ctx never cuts off a call of the store: messages that it received would stay hidden for a
//     visibility.
//   - A message belongs to the caller from [Batch].Since for the visibility. Since is before the store's own
//     beginning, by this process's clock, whatever that clock says.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/millrace-go/millrace/storage"
)

// FirstLook is the time until the second look of an idle consumer, without rings.
const FirstLook = 20 * time.Millisecond

// Config says how a queue is waited for. The zero Config is right for most.
type Config struct {
	// Poll is the longest time between two looks; less than [FirstLook] means that. Defaults to the store's own,
	// Props.PollInterval.
	Poll time.Duration
}

// A Batch holds the messages that were received together. The caller owns it.
type Batch struct {
	Deliveries []storage.Delivery
	Since      time.Time // the visibility began then, or later
	Full       bool      // it has as many messages as were asked for: there may be more
}

// An Inbox waits for one queue. One goroutine uses it.
type Inbox struct {
	queue   *storage.Queue
	sub     *storage.Subscription
	props   storage.Props
	longest time.Duration

	poll, trouble backoff.ExponentialBackOff
	next          time.Time // when the next look is due
	failed        bool      // the last look failed
	rung          bool      // a ring came since the last look that found less than it asked for
}

// Open begins to wait for a queue. It makes no request.
func Open(store *storage.Store, queue string, cfg Config) *Inbox {
	props := store.Props()
	in := &Inbox{
		queue: store.Queue(queue), sub: store.Listen(queue), props: props,
	}
	in.trouble = newBackOff(100*time.Millisecond, 10*time.Second)
	in.setPoll(cfg.Poll)
	return in
}

// SetPoll changes Config.Poll. A wait that has more than the new interval before it ends earlier.
func (in *Inbox) SetPoll(poll time.Duration) {
	in.setPoll(poll)
	if most := time.Now().Add(in.longest); in.next.After(most) && !in.failed {
		in.next = most
	}
}

func (in *Inbox) setPoll(poll time.Duration) {
	if poll != 0 {
		poll = max(poll, FirstLook)
	}
	in.longest = cmp.Or(poll, in.props.PollInterval)
	in.poll = newBackOff(FirstLook, in.longest)
}

func newBackOff(first, most time.Duration) backoff.ExponentialBackOff {
	b := backoff.ExponentialBackOff{InitialInterval: first, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: most, Clock: backoff.SystemClock}
	b.Reset()
	return b
}

// Hasten makes the next look due at once, unless the last one failed.
func (in *Inbox) Hasten() {
	if !in.failed {
		in.next = time.Now()
	}
}

// Close ends the waiting.
func (in *Inbox) Close() { in.sub.Close() }

// Receive waits until there is something, and returns up to max messages, hidden for visibility. Its error is that of
// a look, or context.Cause when ctx ends. It may be called again after an error of a look, and then waits before the
// next look.
func (in *Inbox) Receive(ctx context.Context, max int, visibility time.Duration) (Batch, error) {
	for {
		batch, due := in.Wait(ctx, max, visibility)
		if len(batch.Deliveries) > 0 {
			return batch, nil
		}
		if !due {
			return Batch{}, context.Cause(ctx)
		}
		batch, err := in.Look(ctx, max, visibility)
		if err != nil || len(batch.Deliveries) > 0 {
			return batch, err
		}
	}
}

// Look asks the store once, without waiting: up to max messages, hidden for visibility. It bounds the call by the
// visibility, and doesn't end it with ctx.
func (in *Inbox) Look(ctx context.Context, max int, visibility time.Duration) (Batch, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), visibility)
	defer cancel()
	began := time.Now()
	ds, err := in.queue.Receive(call, max, visibility)
	if errors.Is(err, storage.ErrPartial) {
		in.failed, in.next = false, time.Time{}
		return Batch{}, err
	}
	if err != nil {
		in.failed, in.next = true, time.Now().Add(in.trouble.NextBackOff())
		return Batch{}, err
	}
	if in.failed {
		in.failed = false
		in.trouble.Reset()
	}
	batch := Batch{Deliveries: ds, Since: began, Full: len(ds) >= min(max, in.props.MaxReceive)}
	in.next = time.Now().Add(in.pause(len(ds) > 0, batch.Full))
	return batch, nil
}

// pause tells how long after a look the next one is due, if nothing rings.
func (in *Inbox) pause(found, full bool) time.Duration {
	if found && !in.rung {
		in.poll.Reset()
	}
	in.rung = in.rung && full // the ring was for the next look, too
	if full || found && in.sub.Rings() == nil {
		return 0
	}
	return min(in.poll.NextBackOff(), in.longest)
}

// Wait waits until the next look is due, and then returns due as true: at once before the first look. It returns
// earlier when messages are handed over as they are sent: up to max of them, hidden for visibility. Call it again to
// wait on. When ctx ends it returns neither.
func (in *Inbox) Wait(ctx context.Context, max int, visibility time.Duration) (batch Batch, due bool) {
	if ctx.Err() != nil {
		return Batch{}, false
	}
	d := time.Until(in.next)
	if d <= 0 {
		return Batch{}, true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	if in.failed {
		select {
		case <-timer.C:
			return Batch{}, true
		case <-ctx.Done():
			return Batch{}, false
		}
	}
	for {
		batch, due = in.waitOnce(ctx, timer.C, max, visibility)
		if due || len(batch.Deliveries) > 0 || ctx.Err() != nil {
			return batch, due
		}
	}
}

// waitOnce waits for a ring, for messages that are handed over, for the timer, or for the end of ctx.
func (in *Inbox) waitOnce(ctx context.Context, timer <-chan time.Time, max int, visibility time.Duration) (batch Batch, due bool) {
	ready, take, _ := in.sub.Claim(max, visibility)
	select {
	case <-ready:
	case <-timer:
		due = true
	case <-in.sub.Rings():
		in.rung, due = true, true
		in.next = time.Time{}
	case <-ctx.Done():
	}
	if take == nil {
		return Batch{}, due
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), visibility)
	defer cancel()
	ds, since := take(call) // also messages that came together with the ring or the end
	if len(ds) == 0 {
		return Batch{}, due
	}
	return Batch{Deliveries: ds, Since: since, Full: len(ds) >= min(max, in.props.MaxReceive)}, due
}
