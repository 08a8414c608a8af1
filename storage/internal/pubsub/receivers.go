package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage/driver"
)

// receiverLimit is how long a receiver may take. One that takes longer hangs.
const receiverLimit = 5 * time.Second

// Receivers are those of one store. The zero Receivers has none, and logs nothing.
type Receivers struct {
	// Logger gets an error for a receiver that panics or ends its goroutine, once for each. Defaults to none.
	Logger *slog.Logger

	mu     sync.Mutex
	topics map[string][]*Registration
	closed bool
}

// A Registration implements driver.Registration.
type Registration struct {
	receivers *Receivers
	topic     string
	receiver  driver.Receiver

	over    atomic.Bool  // closed
	hanging atomic.Int32 // calls that have not returned in time
	warned  atomic.Bool

	lose sync.Once // closes lost
	lost chan struct{}
}

// Subscribe adds a receiver.
func (e *Receivers) Subscribe(topic string, receiver driver.Receiver) (*Registration, error) {
	h := &Registration{receivers: e, topic: topic, receiver: receiver, lost: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("%w: it is closed", driver.ErrUnavailable)
	}
	if e.topics == nil {
		e.topics = map[string][]*Registration{}
	}
	e.topics[topic] = append(e.topics[topic], h)
	return h, nil
}

// Lost implements driver.Registration.
func (h *Registration) Lost() <-chan struct{} { return h.lost }

// Close implements driver.Registration.
func (h *Registration) Close() {
	h.over.Store(true)
	e := h.receivers
	e.mu.Lock()
	defer e.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(e.topics[h.topic]), func(x *Registration) bool { return x == h }) // a call may be reading the old slice
	if len(left) > 0 {
		e.topics[h.topic] = left
	} else {
		delete(e.topics, h.topic)
	}
}

// Topics lists the topics that have receivers, in order.
func (e *Receivers) Topics() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.topics))
}

// Lose tells all present Registrations that their connection is lost. Their receivers are still called for what comes.
func (e *Receivers) Lose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, list := range e.topics {
		for _, h := range list {
			h.lose.Do(func() { close(h.lost) })
		}
	}
}

// Close is Lose, and refuses what comes later.
func (e *Receivers) Close() {
	e.Lose()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.topics = nil
}

// of returns the receivers of a topic.
func (e *Receivers) of(topic string) ([]*Registration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("%w: it is closed", driver.ErrUnavailable)
	}
	return e.topics[topic], nil
}

// Call implements Peer for the store's own receivers.
func (e *Receivers) Call(ctx context.Context, r Request) (int, error) {
	list, err := e.of(r.Topic)
	if err != nil {
		return 0, ErrGone
	}
	if len(list) == 0 {
		return 0, nil
	}
	if r.Kind == GiveOne {
		return giveOne(ctx, list, r.Data)
	}
	most := 0
	if r.Kind == GiveAll {
		most = driver.Everyone
	}
	sum := 0
	counts, err := callAll(ctx, list, r.Data, most)
	for _, n := range counts {
		sum += n
	}
	return min(sum, driver.Everyone), err
}

// giveOne asks the receivers, and gives data to one of those that would take it.
func giveOne(ctx context.Context, list []*Registration, data []byte) (int, error) {
	weights := []int{1}
	if len(list) > 1 {
		weights, _ = callAll(ctx, list, data, 0)
	}
	for {
		i := choose(weights)
		if i < 0 {
			return 0, nil
		}
		weights[i] = 0
		if n, err := list[i].call(ctx, data, 1); n > 0 || err != nil {
			return n, err
		}
	}
}

// callAll calls receivers at the same time.
func callAll(ctx context.Context, list []*Registration, data []byte, most int) ([]int, error) {
	counts, errs := make([]int, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i, h := range list[1:] {
		all.Go(func() { counts[i+1], errs[i+1] = h.call(ctx, data, most) })
	}
	counts[0], errs[0] = list[0].call(ctx, data, most)
	all.Wait()
	return counts, errors.Join(errs...)
}

// errHangs means that a receiver got data and didn't return.
var errHangs = errors.New("a receiver doesn't return")

// call calls the receiver in a goroutine of its own, because it may do anything. An error means that the outcome is
// unknown.
func (h *Registration) call(ctx context.Context, data []byte, most int) (int, error) {
	if h.over.Load() || h.hanging.Load() > 0 {
		return 0, nil
	}
	answer := make(chan int, 1)
	data = bytes.Clone(data) // now, because the caller may use its own again when this call has returned
	go func() {
		n := 0
		if err := contain.Apart(func() error { n = h.receiver(data, most); return nil }); err != nil {
			h.warn(err)
		}
		answer <- n // 0 after a failure
	}()
	limit := time.NewTimer(receiverLimit)
	defer limit.Stop()
	err := errHangs
	select {
	case n := <-answer:
		if most == 0 {
			most = driver.Everyone
		}
		return max(0, min(n, most)), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
	}
	h.hanging.Add(1)
	go func() {
		<-answer
		h.hanging.Add(-1)
	}()
	return 0, err
}

// warn logs the first failure of a receiver.
func (h *Registration) warn(err error) {
	if log := h.receivers.Logger; log != nil && !h.warned.Swap(true) {
		log.Error("storage: a receiver failed, so it took nothing", "topic", h.topic, "error", err)
	}
}
