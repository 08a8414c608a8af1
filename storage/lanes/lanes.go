package lanes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Most is the largest number of lanes that a queue may have.
const Most = 16

// slowLanes is how many lanes noisy tenants have. The first one is all that older versions know.
const slowLanes = 4

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

// Names lists the queues of the store that hold the messages of a queue, or may hold some that were sent while it had
// more lanes. The first one is the queue itself.
func (x Queue) Names(queue string) []string {
	var names []string
	for _, p := range x.priorities() {
		for i := range Most {
			names = append(names, laneName(queue, p, i))
		}
	}
	for i := range slowLanes {
		names = append(names, slowLaneName(queue, i))
	}
	return names
}

func (x Queue) priorities() []Priority {
	if x.Priorities {
		return []Priority{Normal, High, Low}
	}
	return []Priority{Normal}
}

func slowLaneName(queue string, i int) string {
	if i == 0 {
		return queue + "-slow"
	}
	return queue + "-slow-" + strconv.Itoa(i)
}

func laneName(queue string, p Priority, i int) string {
	switch p {
	case High:
		queue += "-high"
	case Low:
		queue += "-low"
	}
	if i > 0 {
		queue += "-lane-" + strconv.Itoa(i)
	}
	return queue
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
				all[name] = q.division
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
		q.moves.Wait()
		q.crowd.close()
		q.stash.empty()
	}
	return s.Store.Close()
}

// queue is a queue that has lanes. It implements driver.Queue.
type queue struct {
	name     string
	division Queue
	inner    *storage.Store
	props    driver.Props
	rings    bool // the inner store rings
	read     func(body []byte) Mark
	unhad    func(driver.Delivery) ([]byte, time.Duration, bool)
	lanes    []*lane // the last ones are the slow lanes
	crowd    *crowd
	stash    stash
	moves    sync.WaitGroup

	mu   sync.Mutex
	turn turns
	hand hand
	bell bell

	untold error // what a lane failed by, until a Receive has told it
}

// A lane is a queue of the inner store.
type lane struct {
	account
	number int
	name   string
	q      driver.Queue
	turns  *class

	// These fields are under the mutex of the queue.
	hot      bool      // it may have messages
	signs    int       // how often something said so
	fullFrom time.Time // since when it has brought all that was asked for; zero: it has not
	sweeping bool      // it has messages that are to be moved
	moving   bool      // some are being moved
	broken   broken
}

func newQueue(inner *storage.Store, name string, x Queue, cfg Config) *queue {
	d := inner.Driver()
	q := &queue{name: name, division: x, inner: inner, props: d.Props(), rings: d.Listener() != nil, read: cfg.Read, unhad: cfg.Unhad}
	if q.unhad == nil {
		q.unhad = func(driver.Delivery) ([]byte, time.Duration, bool) { return nil, 0, false }
	}
	q.stash.q = q
	q.crowd = newCrowd(inner.Blobs(container), name)
	q.hand.entries = map[driver.Receipt]entry{}
	names := x.Names(name)
	for n, p := range x.priorities() {
		c := &class{priority: p, weight: Weights{}.of(p)}
		for i := range Most {
			l := &lane{number: n*Most + i, name: names[n*Most+i], turns: c, hot: true}
			c.lanes, q.lanes = append(c.lanes, l), append(q.lanes, l)
		}
		q.turn.classes = append(q.turn.classes, c)
	}
	aside := &class{aside: true, weight: 1}
	for range slowLanes {
		l := &lane{number: len(q.lanes), name: names[len(q.lanes)], turns: aside, hot: true}
		aside.lanes, q.lanes = append(aside.lanes, l), append(q.lanes, l)
	}
	q.turn.classes = append(q.turn.classes, aside)
	for _, l := range q.lanes {
		l.q = d.Queue(l.name)
		if q.current(l) {
			q.turn.current.lanes = append(q.turn.current.lanes, l)
		} else {
			q.turn.former.lanes = append(q.turn.former.lanes, l)
		}
	}
	return q
}

// slowLane returns the lane of a tenant that is noisy, or nil.
func (q *queue) slowLane(k key) *lane {
	i, noisy := q.crowd.noisy(k)
	if !noisy {
		return nil
	}
	return q.lanes[len(q.lanes)-slowLanes+i]
}

// current reports that messages are sent into a lane, and not only found there after a change of the number.
func (q *queue) current(l *lane) bool {
	if l.turns.aside {
		return q.division.Lanes > 0
	}
	return l.number%Most < max(1, q.division.Lanes)
}

// heat notes a sign that a lane may have messages.
func (q *queue) heat(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.hot = true
	l.signs++
}
