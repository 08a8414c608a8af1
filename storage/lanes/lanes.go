package lanes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Most is the largest number of lanes that a queue may have.
const Most = 16

// Priority says how urgent a message is.
type Priority int8

// Priorities. The zero Priority is Normal.
const (
	Low    Priority = -1
	Normal Priority = 0
	High   Priority = 1
)

// Queue says how a queue is divided.
type Queue struct {
	// Lanes is the number of lanes, 1 to [Most]. With lanes there are slow lanes, also with one. 0 means that tenants
	// share one lane and that nobody is put aside.
	Lanes int

	// Priorities gives High and Low messages lanes of their own.
	Priorities bool
}

// A Mark is what decides on the lane of a message.
type Mark struct {
	Tenant   string   // empty: none, and the ID decides on the lane
	ID       string   // of the message
	Priority Priority // of no effect in a queue without priorities
	Delayed  bool     // it was sent with a delay, so it may be cancelled where it is
	Apart    bool     // its body is a blob, which ends with the first of its copies that is handled
}

// Config says which queues have lanes.
type Config struct {
	Queues map[string]Queue

	// Read returns the mark of a message, or the zero Mark for a body that it can't read.
	Read func(body []byte) Mark

	// Unhad returns the body with which a message goes back to its lane that was delivered and that nobody has had, so
	// that this delivery isn't counted as one without an outcome, and how long it is hidden. It returns false for a body
	// that it can't read; that message goes back as it is. Defaults to none: each goes back as it is.
	Unhad func(d driver.Delivery) (body []byte, delay time.Duration, ok bool)
}

// Check reports all that is wrong with the division of a queue.
func (x Queue) Check(queue string) error {
	var faults []error
	if x.Lanes < 0 || x.Lanes > Most {
		faults = append(faults, fmt.Errorf("%w: queue %s has %d lanes; want 1 to %d", storage.ErrInvalid, storage.Quote(queue), x.Lanes, Most))
	}
	for _, name := range x.Names(queue) {
		if err := storage.CheckName(name); err != nil {
			faults = append(faults, fmt.Errorf("queue %s is too long a name for lanes, which are named after it: %w", storage.Quote(queue), err))
			break
		}
	}
	return errors.Join(faults...)
}

// Over returns a store that keeps all data in inner, and divides some of its queues into lanes. Closing the result
// closes inner. Over opens nothing and makes no request. A store that has lanes already gets those of cfg in addition.
// Without any queue in cfg the result is inner itself.
func Over(inner *storage.Store, cfg Config) (*storage.Store, error) {
	if len(cfg.Queues) == 0 {
		return inner, nil
	}
	if cfg.Read == nil {
		return nil, &storage.Error{Op: "open", Resource: "lanes", Err: fmt.Errorf("%w: Read is nil", storage.ErrInvalid)}
	}
	all := maps.Clone(cfg.Queues)
	if s, ok := inner.Driver().(*store); ok { // lanes within lanes would spread each lane
		inner = s.inner
		for name, q := range s.queues {
			if _, ok := all[name]; !ok {
				all[name] = q.placer.division
			}
		}
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		faults = append(faults, all[name].Check(name))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &storage.Error{Op: "open", Resource: "lanes", Err: err}
	}
	s := &store{Store: inner.Driver(), inner: inner, queues: map[string]*queue{}}
	for name, division := range all {
		s.queues[name] = newQueue(inner, name, division, cfg)
	}
	return storage.New(s), nil
}

// store implements driver.Store.
type store struct {
	driver.Store
	inner  *storage.Store
	queues map[string]*queue
}

// Queue implements driver.Store.
func (s *store) Queue(name string) driver.Queue {
	if q := s.queues[name]; q != nil {
		return q
	}
	return s.Store.Queue(name)
}

// Requests implements driver.Store. Those of lanes count as those of their queue.
func (s *store) Requests() []driver.Requests {
	list := s.Store.Requests()
	if list == nil {
		return nil // the inner store doesn't count
	}
	of := s.queuesOfLanes()
	sums := make([]driver.Requests, 0, len(list))
	at := map[driver.Request]int{}
	for _, r := range list {
		if queue, ok := of[r.Target]; ok && r.Kind == "queue" {
			r.Target = queue
		}
		i, ok := at[r.Request]
		if !ok {
			at[r.Request] = len(sums)
			sums = append(sums, r)
			continue
		}
		sums[i].Count += r.Count
		sums[i].Throttled += r.Throttled
	}
	return sums
}

// queuesOfLanes returns the queue of each lane, by the lane's name.
func (s *store) queuesOfLanes() map[string]string {
	of := map[string]string{}
	for name, q := range s.queues {
		for _, l := range q.lanes {
			of[l.name] = name
		}
	}
	return of
}

// Committer implements driver.Store.
func (s *store) Committer() driver.Committer {
	inner := s.Store.Committer()
	if inner == nil {
		return nil
	}
	return &committer{inner, s}
}

// Finder implements driver.Store.
func (s *store) Finder() driver.Finder {
	inner := s.Store.Finder()
	if inner == nil {
		return nil
	}
	return &finder{inner, s}
}

// Lister implements driver.Store.
func (s *store) Lister() driver.Lister {
	inner := s.Store.Lister()
	if inner == nil {
		return nil
	}
	return lister{inner, s}
}

// lister names a queue for its lanes.
type lister struct {
	driver.Lister
	s *store
}

func (l lister) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		of, seen := l.s.queuesOfLanes(), map[string]bool{}
		for name, err := range l.Lister.Queues(ctx) {
			if queue, ok := of[name]; ok {
				name = queue
			}
			if err == nil && seen[name] {
				continue
			}
			seen[name] = true
			if !yield(name, err) {
				return
			}
		}
	}
}

// Peeker implements driver.Store.
func (s *store) Peeker() driver.Peeker {
	inner := s.Store.Peeker()
	if inner == nil {
		return nil
	}
	return peeker{inner, s}
}

// Listener implements driver.Store.
func (s *store) Listener() driver.Listener {
	inner := s.Store.Listener()
	if inner == nil {
		return nil
	}
	return &listener{inner, s}
}

// Close hands back what waits to be received, and closes the inner store.
func (s *store) Close() error {
	for _, q := range s.queues {
		q.close()
	}
	return s.Store.Close()
}
