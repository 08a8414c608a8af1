package pubsub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	// AskLimit is how long another store may take to say how many would take something.
	AskLimit = 250 * time.Millisecond

	// GiveLimit is how long it may take to give something, and to say how many took it.
	GiveLimit = time.Second

	// atOnce is how many other stores one publication calls at the same time.
	atOnce = 256

	// mostNames is how many peers that can't be reached an error names.
	mostNames = 5
)

// A Kind is a sort of request.
type Kind byte

const (
	Ask     Kind = iota + 1 // how many would take the data?
	GiveOne                 // give the data to one
	GiveAll                 // give the data to each
)

// An ID names a request. A request that is repeated keeps its ID.
type ID [16]byte

// A Request is what one store asks of another.
type Request struct {
	Kind  Kind
	ID    ID
	Topic string
	Data  []byte
}

// A Peer is a store that may have receivers.
type Peer interface {
	// Call makes a request, and returns the count in the answer. It may repeat the request until ctx ends. An error
	// that matches [ErrGone] means that the request has had no effect; after any other its effect is unknown. After
	// [ErrUnreached], an error names a peer that is a fmt.Stringer.
	Call(ctx context.Context, r Request) (int, error)
}

// ErrGone means that a peer is not there any more.
var ErrGone = errors.New("the peer is gone")

// ErrUnreached means that a peer has never answered this process: it has died, or nothing passes between the two.
var ErrUnreached = errors.New("can't be reached: died lately, or nothing passes to it from this process")

// A Transport reaches the stores of other processes.
type Transport interface {
	// Peers lists the other stores that may have receivers of a topic. done is called when they are not used any more.
	// Both an error and peers may be returned, and done is never nil.
	Peers(ctx context.Context, topic string) (list []Peer, done func(), err error)
}

// Publish implements the method of driver.Listener. It calls a store's own receivers and, with a transport, those of
// others.
func Publish(ctx context.Context, own *Receivers, others Transport, topic string, data []byte, one bool) (int, error) {
	if _, err := own.of(topic); err != nil {
		return 0, err
	}
	peers := []Peer{own}
	var failed error
	if others != nil {
		list, done, err := others.Peers(ctx, topic)
		defer done()
		peers, failed = append(peers, list...), err
	}
	request := Request{Topic: topic, Data: data}
	if one {
		n, err := publishOne(ctx, peers, request)
		if n > 0 || err != nil && !errors.Is(err, ErrUnreached) {
			return n, err
		}
		return 0, errors.Join(failed, err) // perhaps one of those that couldn't be found or reached would have taken it
	}
	request.Kind = GiveAll
	received := 0
	counts, unreached := callPeers(ctx, peers, request, GiveLimit)
	for _, n := range counts {
		received += n
	}
	if ctx.Err() != nil {
		return received, context.Cause(ctx)
	}
	return received, errors.Join(failed, unreached)
}

// publishOne asks all, chooses one of those that would take the data, and gives it to that one.
func publishOne(ctx context.Context, peers []Peer, r Request) (int, error) {
	r.Kind = Ask
	weights, unreached := callPeers(ctx, peers, r, AskLimit)
	r.Kind = GiveOne
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		i := choose(weights)
		if i < 0 {
			return 0, unreached
		}
		weights[i] = 0
		n, err := callWithin(ctx, peers[i], r, GiveLimit)
		switch {
		case n > 0:
			return 1, nil
		case err == nil || errors.Is(err, ErrGone):
			continue // it has changed its mind, or is closed
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return 0, fmt.Errorf("%w: the one that was chosen didn't answer, so the data may have been received: %w", driver.ErrUnavailable, err)
	}
}

// callPeers calls all peers, each with a time limit, and returns the counts of those that answered. The error says how
// many have never answered.
func callPeers(ctx context.Context, peers []Peer, r Request, limit time.Duration) ([]int, error) {
	counts := make([]int, len(peers))
	errs := make([]error, len(peers))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, p := range peers[1:] {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			counts[i+1], errs[i+1] = callWithin(ctx, p, r, limit)
		})
	}
	counts[0], _ = peers[0].Call(ctx, r) // the own receivers have limits of their own
	all.Wait()
	return counts, unreached(peers, errs)
}

// unreached is the error of peers that have never answered. It names a few of them.
func unreached(peers []Peer, errs []error) error {
	n, names := 0, []string(nil)
	for i, err := range errs {
		if !errors.Is(err, ErrUnreached) {
			continue
		}
		n++
		if p, ok := peers[i].(fmt.Stringer); ok && len(names) < mostNames {
			names = append(names, p.String())
		}
	}
	at := ""
	if len(names) > 0 {
		at = " at " + strings.Join(names, ", ")
	}
	if n > len(names) && len(names) > 0 {
		at += ", …"
	}
	switch n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: 1 process listens%s and %w", driver.ErrUnavailable, at, ErrUnreached)
	default:
		return fmt.Errorf("%w: %d processes listen%s and %w", driver.ErrUnavailable, n, at, ErrUnreached)
	}
}

// callWithin makes a request of its own, and bounds its time. The own receivers have limits of their own.
func callWithin(ctx context.Context, p Peer, r Request, limit time.Duration) (int, error) {
	rand.Read(r.ID[:])
	if _, own := p.(*Receivers); own {
		return p.Call(ctx, r)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return p.Call(ctx, r)
}

// choose returns the place of a weight, each with the chance that its weight gives it, or -1 if all are 0.
func choose(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	if sum <= 0 {
		return -1
	}
	at := random.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return -1
}
