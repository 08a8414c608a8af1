// Package track finds out where messages are: waiting in a queue, with a worker, or in a poison queue. A search asks
// the store a bounded number of requests, and says what it didn't look through.
//
//	s := track.New(desk, 200)
//	places, err := s.In(ctx, "orders", []string{id})
//
// A store that finds messages by their keys tells of each. Another one shows the first ready messages of a queue, and
// those alone can be found.
package track

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostPeeked  = 32 // messages of a queue that are looked at
	mostOfKinds = 64 // entries of a poison queue that are read to find a kind
)

// The states of a message in a place.
const (
	Waiting = "waiting" // it is ready
	Delayed = "delayed"
	Held    = "held" // by a worker, or handled before and to come again
	Poison  = "poison"
)

// A Place is where a message is.
type Place struct {
	Queue    string
	State    string
	Envelope channel.Envelope
	Peeked   storage.Peeked // of a message that waits
	Entry    poison.Entry   // of a message in the poison queue
	Decoded  bool           // Envelope has it
}

// A Search asks a store a bounded number of requests. Its methods may be called concurrently.
type Search struct {
	desk *act.Desk
	left atomic.Int64

	mu     sync.Mutex
	peeked map[string][]Place // by queue
}

// New begins a search of at most so many requests.
func New(desk *act.Desk, most int64) *Search {
	s := &Search{desk: desk, peeked: map[string][]Place{}}
	s.left.Store(most)
	return s
}

// May reports that so many requests more may be made, and counts them.
func (s *Search) May(n int64) bool { return s.left.Add(-n) >= 0 }

// ErrEnough is the error of a search that has asked for enough.
var ErrEnough = errors.New("it would be too many requests")

// First returns the first messages that wait in a queue. A store that shows none has none.
func (s *Search) First(ctx context.Context, queue string) (all []Place, err error) {
	s.mu.Lock()
	all, known := s.peeked[queue]
	s.mu.Unlock()
	if known {
		return all, nil
	}
	if !s.May(1) {
		return nil, ErrEnough
	}
	for m, err := range s.desk.Store.Queue(queue).Peek(ctx) {
		if errors.Is(err, storage.ErrUnsupported) {
			break
		}
		if err != nil {
			return nil, err
		}
		p := Place{Queue: queue, State: Waiting, Peeked: m}
		if !m.ReadyAt.IsZero() {
			p.State = Delayed
		}
		if e, err := wire.Decode(m.Body); err == nil {
			p.Envelope, p.Decoded = e, true
		}
		if all = append(all, p); len(all) == mostPeeked {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peeked[queue] = all
	return all, nil
}

// In returns the places of messages in a queue, by their IDs.
func (s *Search) In(ctx context.Context, queue string, ids []string) (all []Place, err error) {
	first, err := s.First(ctx, queue)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		seen := false
		for _, p := range first {
			if p.Decoded && p.Envelope.ID == id {
				all, seen = append(all, p), true
			}
		}
		if seen || !s.desk.Store.Finds() || storage.CheckKey(id) != nil {
			continue
		}
		if !s.May(1) {
			return all, ErrEnough
		}
		found, err := s.desk.Store.Queue(queue).Find(ctx, id)
		if err != nil {
			return all, err
		}
		for _, d := range found {
			if e, err := wire.Decode(d.Body); err == nil && e.ID == id {
				state := Waiting
				if d.Receipt == "" {
					state = Held
				}
				all = append(all, Place{Queue: queue, State: state, Envelope: e, Decoded: true, Peeked: storage.Peeked{Body: d.Body, Deliveries: d.Deliveries}})
			}
		}
	}
	return all, nil
}

// PoisonedOf reports whether a poison queue has a message of a kind. It reads a bounded number of entries, and returns
// [ErrEnough] if there are more and none of these is of the kind.
func (s *Search) PoisonedOf(ctx context.Context, queue string, kind channel.Kind) (found bool, err error) {
	n := 0
	for e, err := range poison.States(ctx, s.desk.Store, queue) {
		if err != nil {
			return false, err
		}
		if n++; n > mostOfKinds || !s.May(1) {
			return false, ErrEnough
		}
		switch m, err := poison.At(s.desk.Channels, queue).Get(ctx, e.Key); {
		case errors.Is(err, storage.ErrNotFound): // somebody has replayed it
		case err != nil:
			return false, err
		case m.Kind == kind:
			return true, nil
		}
	}
	return false, nil
}

// Poisoned returns the places of messages in the poison queue of a queue, by their IDs or by the keys of entries.
func (s *Search) Poisoned(ctx context.Context, queue string, ids []string) (all []Place, err error) {
	from := poison.At(s.desk.Channels, queue)
	seen := map[string]bool{}
	take := func(m poison.Entry) {
		if seen[m.Key] {
			return
		}
		seen[m.Key] = true
		p := Place{Queue: queue, State: Poison, Entry: m}
		if e, err := wire.Decode(m.Body); err == nil {
			p.Envelope, p.Decoded = e, true
		}
		all = append(all, p)
	}
	for _, id := range ids {
		if !s.May(2) {
			return all, ErrEnough
		}
		for m, err := range from.Find(ctx, id) {
			if err != nil {
				return all, err
			}
			take(m)
		}
		if len(seen) > 0 || storage.CheckKey(queue+"/"+id) != nil {
			continue
		}
		switch m, err := from.Get(ctx, id); {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return all, err
		default:
			take(m)
		}
	}
	return all, nil
}
