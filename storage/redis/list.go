package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

const (
	maxElement    = 256 << 10 // bytes in one element
	maxPush       = 512       // elements in one call
	maxPushBytes  = 1 << 20
	listTopic     = "list:" // no queue has such a name
	listKind      = "list"
	first, last   = "F", "L" // ends of a list, as the scripts have them
	nothingIsHeld = ""
)

// ErrEmpty is in the error of a call on a list that [List.NoWait] has returned, when nothing is there.
var ErrEmpty = errors.New("the list is empty")

// A List is a list of values on the server, in the order in which they were pushed. It is for simple things: a few
// values for whoever is idle, the newest readings, a stack of free numbers. A queue of the framework does more: it
// knows delays, attempts and poison, keeps an effect from being doubled, takes part in units of work, and its messages
// outlive a change of the driver. Take a queue for work that must be done, and a list where a value may be lost or done
// twice.
//
//	list, err := redis.NewList(store, "readings")
//	err = list.Push(ctx, []byte("21.5"))
//	value, err := list.PopFirst(ctx) // the oldest one; waits until there is one, or ctx ends
//	value, err := list.PopLast(ctx)  // the newest one
//
// A value that was popped is gone, also when its consumer dies a moment later. A value that was taken is held for the
// consumer until the consumer says that it is done:
//
//	taken, err := list.TakeFirst(ctx)
//	handle(taken.Value)
//	err = taken.Done(ctx)
//
//	n, err := list.Recover(ctx) // elsewhere, now and then: gives back what dead consumers held
//
// # How it works
//
//	P:L:NAME  list  what waits ──TakeFirst, TakeLast──▶ P:H:NAME  hash  claim → value ──Done──▶ gone
//	            ▲                                                          │
//	            └─────────────── HandBack, Recover ────────────────────────┘
//
// Each call is one script. A push rings on the channel of the list, and each process with a waiting consumer then looks
// once. So a waiting consumer needs no connection of its own, as it would with BLPOP, and costs the server one look
// each 5 seconds while nothing comes. Other programs may push to the list by RPUSH; a consumer that waits finds such a
// value at its next look.
//
// # Laws
//
//   - First in, first out by PopFirst and TakeFirst; newest first by PopLast and TakeLast.
//   - A push is all or nothing. A push of an unknown outcome may have been done, so a second one may double its values.
//   - A value is given to one consumer. A pop gives it at most once. A take gives it again once it was handed back, or
//     recovered, to the end that it came from.
//   - A killed consumer loses nothing that it has taken. Recover gives back what a process holds whose connection is
//     gone, 2 seconds after it has first seen that. A process that stands still keeps what it holds.
//   - Done after the value was given back is [storage.ErrReceiptStale]: another consumer may have the value.
//   - The end of a context loses nothing: a value that is on its way then returns to the list. A pop whose answer is
//     lost, because the connection or the server dies, loses its value. A take whose answer is lost is repeated by the
//     next take from that end by this store, and gives the same value.
//   - However many consumers of a process wait, one of them looks after a push, and then the next one if there was
//     something.
//
// All methods may be called concurrently. A List needs no closing: it lives as long as its store.
type List struct {
	s      *store
	name   string
	noWait bool
	shared *sharedList
}

// sharedList is what the Lists of one name have in common.
type sharedList struct {
	turn   chan struct{} // of capacity 1: full while a consumer waits for rings
	listen func() driver.Subscription

	mu    sync.Mutex
	doubt map[string][]string // claims by their end, which may hold a value that nobody was told of
}

// lists are the lists of a store that were used.
type lists struct {
	byName sync.Map
	claims atomic.Uint64
}

// NewList returns the list of a name, which obeys [storage.CheckName]. It makes no request. The store must be one that
// [Open] or [Driver] has opened, with no decorator around it: only such a store has a connection to the server.
func NewList(s *storage.Store, name string) (*List, error) {
	wrong := func(err error) error {
		return &driver.Error{Op: "open", Resource: "list " + driver.Quote(name), Err: err}
	}
	if err := storage.CheckName(name); err != nil {
		return nil, wrong(err)
	}
	if s == nil {
		return nil, wrong(fmt.Errorf("%w: the store is nil", driver.ErrInvalid))
	}
	own, ok := s.Driver().(*store)
	switch {
	case !ok:
		return nil, wrong(fmt.Errorf("%w: the store is no store of this package, or something is around it; open one for lists by redis.Open", driver.ErrUnsupported))
	case own.cfg.bell:
		return nil, wrong(fmt.Errorf("%w: the store was opened with bell=yes, so it keeps nothing", driver.ErrUnsupported))
	case own.ear == nil:
		return nil, wrong(fmt.Errorf("%w: the store was opened with wake=off, so nobody can tell whether its consumers live", driver.ErrUnsupported))
	}
	shared, _ := own.lists.byName.LoadOrStore(name, &sharedList{
		turn:   make(chan struct{}, 1),
		listen: sync.OnceValue(func() driver.Subscription { return own.Listener().Listen(listTopic + name) }),
		doubt:  map[string][]string{},
	})
	return &List{s: own, name: name, shared: shared.(*sharedList)}, nil
}

// NoWait returns the same list with calls that don't wait: where nothing is there, the error is [ErrEmpty].
func (l *List) NoWait() *List {
	x := *l
	x.noWait = true
	return &x
}

// Push adds values at the list's end, all or none: 1 to 512 values of at most 256 KiB each, and of 1 MiB together. An
// empty value is a value.
func (l *List) Push(ctx context.Context, values ...[]byte) error {
	args := []string{l.name, last}
	size := 0
	for i, v := range values {
		if len(v) > maxElement {
			return l.fail("push to", fmt.Errorf("%w: value %d has %d bytes; at most %d. Put what is larger into a document, and push its key", driver.ErrTooLarge, i, len(v), maxElement))
		}
		size += len(v)
		args = append(args, string(v))
	}
	switch {
	case len(values) == 0 || len(values) > maxPush:
		return l.fail("push to", fmt.Errorf("%w: %d values; want 1 to %d in one call", driver.ErrInvalid, len(values), maxPush))
	case size > maxPushBytes:
		return l.fail("push to", fmt.Errorf("%w: %d bytes in one call; at most %d", driver.ErrTooLarge, size, maxPushBytes))
	}
	_, err := l.ask(ctx, "push to", engine.Push, args...)
	return err
}

// PopFirst removes the oldest value and returns it. Without one it waits, until ctx ends.
func (l *List) PopFirst(ctx context.Context) ([]byte, error) { return l.pop(ctx, first) }

// PopLast removes the newest value and returns it. Without one it waits, until ctx ends.
func (l *List) PopLast(ctx context.Context) ([]byte, error) { return l.pop(ctx, last) }

func (l *List) pop(ctx context.Context, end string) ([]byte, error) {
	v, err := l.await(ctx, func() (string, bool, error) { return l.popNow(ctx, end) })
	if err != nil {
		return nil, l.fail("pop from", err)
	}
	return []byte(v), nil
}

// popNow pops without waiting. The pop doesn't end with ctx: a value that nobody waits for any more returns to its end.
func (l *List) popNow(ctx context.Context, end string) (string, bool, error) {
	call := context.WithoutCancel(ctx)
	return abandonable(ctx, func() (string, bool, error) {
		reply, err := l.ask(call, "pop from", engine.Take, l.name, end, nothingIsHeld)
		return value(reply, err)
	}, func(v string) {
		// Where this fails the connection is lost, and the value with it.
		_, _ = l.ask(call, "push to", engine.Unpop, l.name, end, v)
	})
}

// value reads the reply to a take.
func value(reply client.List, err error) (string, bool, error) {
	r := reply.At(3)
	return r.Text(), err == nil && !r.IsNil(), err
}

// abandonable returns what call returns. If ctx ends before that, it returns at once, and back gets the value that call
// brings.
func abandonable(ctx context.Context, call func() (string, bool, error), back func(string)) (string, bool, error) {
	type result struct {
		v   string
		ok  bool
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, ok, err := call()
		done <- result{v, ok, err}
	}()
	select {
	case r := <-done:
		return r.v, r.ok, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.ok {
				back(r.v)
			}
		}()
		return "", false, context.Cause(ctx)
	}
}

// await calls get until it brings something. One consumer of a process waits for rings; the others wait for their turn.
func (l *List) await(ctx context.Context, get func() (string, bool, error)) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if l.noWait {
		v, ok, err := get()
		if err == nil && !ok {
			err = ErrEmpty
		}
		return v, err
	}
	select {
	case l.shared.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-l.shared.turn }()
	for {
		v, ok, err := get()
		if ok || err != nil {
			return v, err
		}
		select {
		case <-l.shared.listen().Rings():
		case <-time.After(pollRings):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Len counts the values that wait, and those that consumers hold.
func (l *List) Len(ctx context.Context) (waiting, held int64, err error) {
	reply, err := l.ask(ctx, "count", engine.Length, l.name)
	return reply.At(3).Int(), reply.At(4).Int(), err
}

func (l *List) ask(ctx context.Context, op string, q engine.Question, args ...string) (client.List, error) {
	if ctx.Err() != nil {
		return nil, l.fail(op, context.Cause(ctx))
	}
	l.s.tally.count(op, listKind, l.name)
	reply, err := l.s.e.Ask(ctx, q, args...)
	if err != nil {
		return nil, l.fail(op, err)
	}
	return reply, nil
}

func (l *List) fail(op string, err error) error {
	var whole *driver.Error
	if errors.As(err, &whole) {
		return err
	}
	return &driver.Error{Op: op, Resource: "list " + l.name, Err: err}
}
