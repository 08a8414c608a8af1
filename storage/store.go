package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/storage/driver"
)

// A Store is one place that keeps queues, blobs and tables. Open one with a driver's Open, or by its URL with
// [Drivers]. All methods may be called concurrently, also those of the queues, blobs and tables that it returns.
type Store struct {
	d            driver.Store
	props        Props
	committer    driver.Committer // nil: a unit of work is done step by step
	listener     driver.Listener  // nil: nothing rings
	finder       driver.Finder    // nil: no message has a key
	peeker       driver.Peeker    // nil: nobody sees what waits
	publications publications
	memory       sync.Map
}

// New returns the store that stands on a driver. A driver's Open and a decorator call it. Programs call a driver's
// Open instead.
func New(d driver.Store) *Store {
	if d == nil {
		panic("storage.New: a nil driver.Store")
	}
	return &Store{d: d, props: d.Props(), committer: d.Committer(), listener: d.Listener(), finder: d.Finder(), peeker: d.Peeker()}
}

// Driver returns the driver that the store stands on, for a decorator to wrap.
func (s *Store) Driver() driver.Store { return s.d }

// Props tells the driver's fixed properties.
func (s *Store) Props() Props { return s.props }

// Atomic reports that [Store.Commit] is all or nothing.
func (s *Store) Atomic() bool { return s.committer != nil }

// Rings reports whether the store can tell when something has happened; see [Store.Listen].
func (s *Store) Rings() bool { return s.listener != nil }

// Finds reports whether the store can find a message by its key; see [Queue.Find].
func (s *Store) Finds() bool { return s.finder != nil }

// Requests lists what the store has asked of its engine since it was opened. It counts every request, repeated and
// refused ones included, because those are billed too. It is nil where nothing is counted.
func (s *Store) Requests() []Requests { return s.d.Requests() }

// Memory returns what a package remembers of this store while the process lives: what begin made at the first call with
// this key. The key is of a type of that package.
func (s *Store) Memory(key any, begin func() any) any {
	if known, ok := s.memory.Load(key); ok {
		return known
	}
	known, _ := s.memory.LoadOrStore(key, begin())
	return known
}

// Queue returns the queue of a name. It makes no request and can't fail: the first call reports a name that
// [CheckName] refuses. The same goes for Blobs and Table.
func (s *Store) Queue(name string) *Queue {
	q := &Queue{place: place{kind: "queue", name: name, fault: CheckName(name)}, most: s.props.MaxReceive, limit: s.props.MaxMessage, finder: s.finder, peeker: s.peeker}
	if q.fault == nil {
		q.d = s.d.Queue(name)
	}
	return q
}

// Queues yields the names of the queues that hold messages, each once, in no particular order. A queue without messages
// may be among them. It is for an operator's tools: a store that is shared with others may yield queues of theirs. A
// listing is no snapshot. Its error is yielded last and once; where the store can't list, it matches [ErrUnsupported].
func (s *Store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		p := place{kind: "queues"}
		err := p.ready(ctx, nil)
		lister := s.d.Lister()
		if err == nil && lister == nil {
			err = ErrUnsupported
		}
		if err != nil {
			yield("", fail("list", "queues", err))
			return
		}
		for name, err := range lister.Queues(ctx) {
			switch {
			case err != nil:
				yield("", fail("list", "queues", err))
				return
			case CheckName(name) != nil: // another program's
			case !yield(name, nil):
				return
			}
		}
	}
}

// Inspect returns what is wrong with the engine itself, for an operator's tools. It changes nothing. It returns nothing
// where the driver has nothing to tell.
func (s *Store) Inspect(ctx context.Context) ([]Fault, error) {
	p, inspector := place{kind: "engine"}, s.d.Inspector()
	if err := p.ready(ctx, nil); err != nil {
		return nil, fail("inspect", "engine", err)
	}
	if inspector == nil {
		return nil, nil
	}
	faults, err := inspector.Inspect(ctx)
	if err != nil {
		return nil, fail("inspect", "engine", err)
	}
	return faults, nil
}

// PutPublic puts a file that anybody may read from the engine itself, and returns its URL. header has its Content-Type,
// Cache-Control and Content-Encoding. The name is a key (see [CheckKey]); it stands in the URL. A file that is there
// already stays as it is: then the error matches [ErrExists], and the URL is good. A driver that can't do that returns
// [ErrUnsupported].
func (s *Store) PutPublic(ctx context.Context, container, name string, body []byte, header http.Header) (string, error) {
	p, public := place{kind: "container", name: container, fault: CheckName(container)}, s.d.PublicFiles()
	err := p.ready(ctx, checkPut(CheckKey(name), len(body), s.props.MaxBlob, Condition{IfAbsent: true}))
	if err == nil && public == nil {
		err = fmt.Errorf("%w: the engine serves no files to browsers", ErrUnsupported)
	}
	var url string
	if err == nil {
		url, err = public.PutPublic(ctx, container, name, body, header)
	}
	if err != nil {
		return url, p.failAt("put public", "file", err, name)
	}
	return url, nil
}

// Blobs returns the container of a name.
func (s *Store) Blobs(container string) *Blobs {
	b := &Blobs{place: place{kind: "container", name: container, fault: CheckName(container)}, limit: s.props.MaxBlob}
	if b.fault == nil {
		b.d = s.d.Blobs(container)
	}
	return b
}

// Table returns the table of a name.
func (s *Store) Table(name string) *Table {
	t := &Table{place: place{kind: "table", name: name, fault: CheckName(name)}, limit: s.props.MaxRow}
	if t.fault == nil {
		t.d = s.d.Table(name)
	}
	return t
}

// Listen subscribes to a topic: the name of a queue, or any other name that is good for a queue. A queue's topic
// rings when the queue may have become receivable. The subscription never rings where the store doesn't, or when the
// name is no good.
func (s *Store) Listen(topic string) *Subscription {
	sub := &Subscription{most: s.props.MaxReceive}
	if s.listener != nil && CheckName(topic) == nil {
		sub.d = s.listener.Listen(topic)
	}
	return sub
}

// Ring rings all subscribers of a topic, in this process and in others, as far as the store can. It doesn't wait for
// them. A ring is a hint, and may be lost.
func (s *Store) Ring(topic string) {
	if s.listener != nil && CheckName(topic) == nil {
		s.listener.Ring(topic)
	}
}

// Close releases what the store holds. Calls under way end with an error or finish; later ones fail with
// [ErrUnavailable]. Closing twice is harmless.
func (s *Store) Close() error { return s.d.Close() }

// A place is the part that a queue, a container and a table have in common.
type place struct {
	kind, name string
	fault      error // of the name
}

// ready returns what is wrong before a call begins: with its name, its context, or what the caller found wrong.
func (p *place) ready(ctx context.Context, wrong error) error {
	switch {
	case p.fault != nil:
		return p.fault
	case wrong != nil:
		return wrong
	case right.Ended(ctx): // a call under a right that has ended doesn't begin
		return context.Cause(ctx)
	}
	return nil
}

// fail gives an error its operation and resource, unless it has them.
func fail(op, resource string, err error) error {
	var (
		whole *Error
		stale *StaleError
	)
	if errors.As(err, &whole) || errors.As(err, &stale) {
		return err
	}
	return &Error{Op: op, Resource: resource, Err: err}
}

func (p *place) fail(op string, err error) error {
	return fail(op, p.kind+" "+quoteUnless(p.fault == nil, p.name), err)
}

// failAt is fail for a part of the place: a blob, a row, a partition.
func (p *place) failAt(op, part string, err error, keys ...string) error {
	resource := part + " " + quoteUnless(p.fault == nil, p.name)
	for _, k := range keys {
		resource += "/" + Quote(k)
	}
	return fail(op, resource, err)
}

// quoteUnless quotes a text unless it is good: then it may hold anything.
func quoteUnless(good bool, s string) string {
	if good {
		return s
	}
	return Quote(s)
}
