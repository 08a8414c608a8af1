package signal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// topic is where the store tells all signals.
const topic = "signals"

// Broadcast sends a signal to each listener with a pattern that fits the name, and returns how many took it. A
// listener that is full doesn't. After an error, at least so many took it. A process that listens and has never
// answered this one is an error, storage.ErrUnavailable: it has died, or no datagram passes between the two.
func Broadcast(ctx context.Context, store *storage.Store, name string, data []byte) (int, error) {
	return send(ctx, store, "broadcast", name, data, false)
}

// One sends a signal to exactly one of the listeners that would take it, chosen at random. False means that nobody
// waits. An error is also that nobody took it and that a process listens that can't be reached. After another error a
// listener may have taken it, or none; One never tries twice.
func One(ctx context.Context, store *storage.Store, name string, data []byte) (bool, error) {
	n, err := send(ctx, store, "send to one", name, data, true)
	return n > 0, err
}

func send(ctx context.Context, store *storage.Store, op, name string, data []byte, one bool) (n int, err error) {
	frame, err := encode(name, data)
	if err = errors.Join(storecall.CheckStore(store), err); err == nil {
		n, err = store.Publish(ctx, topic, frame, one)
	}
	if err != nil {
		return n, fmt.Errorf("signal: %s %s: %w", op, storage.Quote(name), err)
	}
	return n, nil
}

// Any waits for one signal: it is [Listen], [Listener.Any] and [Listener.Close]. It takes one signal at most. A signal
// that it takes when ctx ends is returned.
func Any(ctx context.Context, store *storage.Store, patterns ...string) (Signal, error) {
	return once(ctx, store, &Listener{patterns: slices.Clone(patterns), room: 1, once: true}, (*Listener).Any)
}

// All waits for a signal for each pattern: it is [Listen], [Listener.All] and [Listener.Close]. It takes only signals
// for patterns that have none. After the end of ctx those that it took are lost, unless there is one for each pattern.
func All(ctx context.Context, store *storage.Store, patterns ...string) ([]Signal, error) {
	return once(ctx, store, &Listener{patterns: slices.Clone(patterns), alls: 1, once: true}, (*Listener).All)
}

// once opens a listener for one call.
func once[T any](ctx context.Context, store *storage.Store, l *Listener, wait func(*Listener, context.Context) (T, error)) (T, error) {
	if _, err := listen(ctx, store, l); err != nil {
		var none T
		return none, err
	}
	got, err := wait(l, ctx)
	l.Close()
	if err != nil && ctx.Err() != nil {
		if last, err := wait(l, context.WithoutCancel(ctx)); err == nil { // it was taken before the listener was closed
			return last, nil
		}
	}
	return got, err
}
