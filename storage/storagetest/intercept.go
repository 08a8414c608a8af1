package storagetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Op is one storage call, as a [Hook] sees it.
type Op struct {
	// Name is one of "send", "receive", "extend", "rewrite", "delete", "find", "peek", "stats", "get blob",
	// "put blob", "delete blob", "list blobs", "list queues", "get row", "put row", "delete row", "query", "put rows",
	// "delete rows", "put part", "list parts", "commit file", "stat file", "open file", "copy file", "delete file",
	// "commit", "subscribe", "publish" and "inspect".
	Name string

	// Resource is "queue NAME", "blob CONTAINER/KEY", "container NAME", "row TABLE/PARTITION/KEY",
	// "partition TABLE/PARTITION", "file CONTAINER/KEY", "topic NAME", "queues", "engine", or for a commit the blob that
	// it writes, else "work".
	Resource string

	// Seq numbers the calls of one Intercept from 1, in the order in which they begin.
	Seq int64

	// release makes the call's messages receivable by any process: those that it names, or has received. nil for calls
	// without messages.
	release func(ctx context.Context)
}

// Fail makes the error that a driver would return for op.
func (op Op) Fail(kind error) error {
	return &storage.Error{Op: op.Name, Resource: op.Resource, Err: fmt.Errorf("%w: made up by a test", kind)}
}

// A Hook wraps every storage call. do performs the call and returns its error. The caller gets the hook's error,
// and the results only if that is nil:
//
//   - To fail a call before its effect, a hook doesn't call do.
//   - To fail it after its effect (a lost answer), a hook calls do and returns an error of its own.
//   - A hook may wait at any time.
//   - A hook that calls do twice performs the call twice, like a repeated request.
//   - To lose what is published without an error, a hook returns nil and doesn't call do: nobody receives it.
//
// In this example a worker dies after the third call, and all later calls fail:
//
//	s = storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
//		if op.Seq > 3 {
//			return op.Fail(storage.ErrUnavailable)
//		}
//		return do()
//	})
//
// A listing is one call; do runs the caller's loop over it. A hook is called concurrently.
type Hook func(ctx context.Context, op Op, do func() error) error

// Intercept wraps a store so that h wraps every call. The result has s's abilities; commits and claimed messages
// pass through h too. Ring, Props, Requests and Close do not, nor do the URLs of files.
func Intercept(s *storage.Store, h Hook) *storage.Store {
	x := &intercepted{Store: s.Driver(), hook: h}
	if c := x.Store.Committer(); c != nil {
		x.committer = interceptedCommitter{x, c}
	}
	if l := x.Store.Listener(); l != nil {
		x.listener = interceptedListener{l, x}
	}
	if f := x.Store.Finder(); f != nil {
		x.finder = interceptedFinder{x, f}
	}
	return storage.New(x)
}

type intercepted struct {
	driver.Store
	hook      Hook
	committer driver.Committer // nil if there is none
	listener  driver.Listener  // nil if there is none
	finder    driver.Finder    // nil if there is none
	seq       atomic.Int64
	found     sync.Map // claims that Find returned: good for Delete alone, so they are never released
}

// around passes a call through the hook and forgets its result if the hook returns an error.
func around[T any](x *intercepted, ctx context.Context, op Op, f func() (T, error)) (T, error) {
	var result, none T
	err := x.call(ctx, op, func() (err error) {
		result, err = f()
		return err
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

// call is around for calls without a result.
func (x *intercepted) call(ctx context.Context, op Op, f func() error) error {
	op.Seq = x.seq.Add(1)
	return x.hook(ctx, op, f)
}

// releasing makes claims receivable by any process.
func (x *intercepted) releasing(claims ...storage.Claim) func(context.Context) {
	if len(claims) == 0 {
		return nil
	}
	return func(ctx context.Context) {
		for _, c := range claims {
			if _, found := x.found.Load(c); found {
				continue
			}
			_, _ = x.Store.Queue(c.Queue).Extend(ctx, c.Receipt, 0) // stale already, or soon
		}
	}
}

// listed passes a whole loop through the hook.
func listed[T any](x *intercepted, ctx context.Context, op Op, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := x.call(ctx, op, func() error {
			for item, err := range seq {
				if err != nil {
					return err
				}
				if stopped = stopped || !yield(item, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

func (x *intercepted) Queue(name string) driver.Queue {
	return interceptedQueue{x, x.Store.Queue(name), name}
}

func (x *intercepted) Blobs(name string) driver.Blobs {
	return interceptedBlobs{x, x.Store.Blobs(name), name}
}

func (x *intercepted) Table(name string) driver.Table {
	return interceptedTable{x, x.Store.Table(name), name}
}

func (x *intercepted) Committer() driver.Committer { return x.committer }
func (x *intercepted) Listener() driver.Listener   { return x.listener }
func (x *intercepted) Finder() driver.Finder       { return x.finder }

func (x *intercepted) Lister() driver.Lister {
	if l := x.Store.Lister(); l != nil {
		return interceptedLister{x, l}
	}
	return nil
}

func (x *intercepted) Peeker() driver.Peeker {
	if p := x.Store.Peeker(); p != nil {
		return interceptedPeeker{x, p}
	}
	return nil
}

func (x *intercepted) Inspector() driver.Inspector {
	if i := x.Store.Inspector(); i != nil {
		return interceptedInspector{x, i}
	}
	return nil
}

type interceptedInspector struct {
	x *intercepted
	i driver.Inspector
}

func (i interceptedInspector) Inspect(ctx context.Context) ([]storage.Fault, error) {
	return around(i.x, ctx, Op{Name: "inspect", Resource: "engine"}, func() ([]storage.Fault, error) { return i.i.Inspect(ctx) })
}

type interceptedPeeker struct {
	x *intercepted
	p driver.Peeker
}

func (p interceptedPeeker) Peek(ctx context.Context, queue string) iter.Seq2[driver.Peeked, error] {
	return listed(p.x, ctx, Op{Name: "peek", Resource: "queue " + queue}, p.p.Peek(ctx, queue))
}

type interceptedLister struct {
	x *intercepted
	l driver.Lister
}

func (l interceptedLister) Queues(ctx context.Context) iter.Seq2[string, error] {
	return listed(l.x, ctx, Op{Name: "list queues", Resource: "queues"}, l.l.Queues(ctx))
}

type interceptedFinder struct {
	x *intercepted
	f driver.Finder
}

func (f interceptedFinder) Find(ctx context.Context, queue, key string) ([]storage.Delivery, error) {
	op := Op{Name: "find", Resource: "queue " + queue}
	ds, err := around(f.x, ctx, op, func() ([]storage.Delivery, error) { return f.f.Find(ctx, queue, key) })
	for _, d := range ds {
		f.x.found.Store(storage.Claim{Queue: queue, Receipt: d.Receipt}, true)
	}
	return ds, err
}

type interceptedCommitter struct {
	x *intercepted
	c driver.Committer
}

func (c interceptedCommitter) Commit(ctx context.Context, w storage.Work) (storage.Committed, error) {
	resource := "work"
	if w.Write != nil {
		resource = "blob " + w.Write.Container + "/" + w.Write.Key
	}
	op := Op{Name: "commit", Resource: resource, release: c.x.releasing(w.Delete...)}
	return around(c.x, ctx, op, func() (storage.Committed, error) { return c.c.Commit(ctx, w) })
}

type interceptedQueue struct {
	x    *intercepted
	q    driver.Queue
	name string
}

func (q interceptedQueue) op(name string, receipts ...storage.Receipt) Op {
	claims := make([]storage.Claim, len(receipts))
	for i, r := range receipts {
		claims[i] = storage.Claim{Queue: q.name, Receipt: r}
	}
	return Op{Name: name, Resource: "queue " + q.name, release: q.x.releasing(claims...)}
}

func (q interceptedQueue) Send(ctx context.Context, messages []storage.Message) error {
	return q.x.call(ctx, q.op("send"), func() error { return q.q.Send(ctx, messages) })
}

func (q interceptedQueue) Receive(ctx context.Context, max int, visibility time.Duration) ([]storage.Delivery, error) {
	return q.receive(ctx, func() ([]storage.Delivery, error) { return q.q.Receive(ctx, max, visibility) })
}

func (q interceptedQueue) receive(ctx context.Context, do func() ([]storage.Delivery, error)) ([]storage.Delivery, error) {
	var got []storage.Delivery
	op := q.op("receive")
	op.release = func(ctx context.Context) {
		for i := range got {
			if r, err := q.q.Extend(ctx, got[i].Receipt, 0); err == nil {
				got[i].Receipt = r // it works until another process receives the message
			}
		}
	}
	return around(q.x, ctx, op, func() (_ []storage.Delivery, err error) {
		got, err = do()
		return got, err
	})
}

func (q interceptedQueue) Extend(ctx context.Context, r storage.Receipt, visibility time.Duration) (storage.Receipt, error) {
	return around(q.x, ctx, q.op("extend", r), func() (storage.Receipt, error) { return q.q.Extend(ctx, r, visibility) })
}

func (q interceptedQueue) Rewrite(ctx context.Context, r storage.Receipt, body []byte, delay time.Duration) error {
	return q.x.call(ctx, q.op("rewrite", r), func() error { return q.q.Rewrite(ctx, r, body, delay) })
}

func (q interceptedQueue) Delete(ctx context.Context, rs []storage.Receipt) error {
	return q.x.call(ctx, q.op("delete", rs...), func() error { return q.q.Delete(ctx, rs) })
}

func (q interceptedQueue) Stats(ctx context.Context) (storage.Stats, error) {
	return around(q.x, ctx, q.op("stats"), func() (storage.Stats, error) { return q.q.Stats(ctx) })
}

// interceptedListener passes rings on.
type interceptedListener struct {
	driver.Listener
	x *intercepted
}

func (l interceptedListener) Listen(topic string) driver.Subscription {
	return interceptedSubscription{l.Listener.Listen(topic), interceptedQueue{l.x, l.x.Store.Queue(topic), topic}}
}

// interceptedSubscription passes claimed messages through the hook as a receive. If the hook fails it, the messages
// stay hidden until their visibility ends.
type interceptedSubscription struct {
	driver.Subscription
	q interceptedQueue
}

func (s interceptedSubscription) Claim(max int, visibility time.Duration) (<-chan struct{}, func(context.Context) ([]storage.Delivery, time.Time)) {
	ready, take := s.Subscription.Claim(max, visibility)
	if take == nil {
		return nil, nil
	}
	return ready, func(ctx context.Context) ([]storage.Delivery, time.Time) {
		got, since := take(ctx) // always take: no other process gets these messages
		if len(got) > 0 {
			got, _ = s.q.receive(ctx, func() ([]storage.Delivery, error) { return got, nil })
		}
		return got, since
	}
}

func (l interceptedListener) Subscribe(ctx context.Context, topic string, receiver storage.Receiver) (driver.Registration, error) {
	h, err := around(l.x, ctx, Op{Name: "subscribe", Resource: "topic " + topic}, func() (driver.Registration, error) { return l.Listener.Subscribe(ctx, topic, receiver) })
	if err == nil && h == nil { // the hook has made no call
		return deaf{}, nil
	}
	return h, err
}

func (l interceptedListener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	return around(l.x, ctx, Op{Name: "publish", Resource: "topic " + topic}, func() (int, error) { return l.Listener.Publish(ctx, topic, data, one) })
}

// deaf is a Registration that receives nothing.
type deaf struct{}

func (deaf) Lost() <-chan struct{} { return nil }
func (deaf) Close()                {}

type interceptedBlobs struct {
	x    *intercepted
	b    driver.Blobs
	name string
}

func (b interceptedBlobs) op(name, key string) Op {
	return Op{Name: name, Resource: "blob " + b.name + "/" + key}
}

func (b interceptedBlobs) Get(ctx context.Context, key string, ifNoneMatch storage.ETag) (storage.Blob, error) {
	return around(b.x, ctx, b.op("get blob", key), func() (storage.Blob, error) { return b.b.Get(ctx, key, ifNoneMatch) })
}

func (b interceptedBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	return around(b.x, ctx, b.op("put blob", key), func() (storage.ETag, error) { return b.b.Put(ctx, key, body, cond) })
}

func (b interceptedBlobs) Delete(ctx context.Context, key string, cond storage.Condition) error {
	return b.x.call(ctx, b.op("delete blob", key), func() error { return b.b.Delete(ctx, key, cond) })
}

func (b interceptedBlobs) List(ctx context.Context, prefix, after string) iter.Seq2[storage.BlobInfo, error] {
	return listed(b.x, ctx, Op{Name: "list blobs", Resource: "container " + b.name}, b.b.List(ctx, prefix, after))
}

type interceptedTable struct {
	x    *intercepted
	t    driver.Table
	name string
}

func (t interceptedTable) op(name, partition, key string) Op {
	return Op{Name: name, Resource: "row " + t.name + "/" + partition + "/" + key}
}

func (t interceptedTable) partitionOp(name, partition string) Op {
	return Op{Name: name, Resource: "partition " + t.name + "/" + partition}
}

func (t interceptedTable) Get(ctx context.Context, partition, key string) (storage.Row, error) {
	return around(t.x, ctx, t.op("get row", partition, key), func() (storage.Row, error) { return t.t.Get(ctx, partition, key) })
}

func (t interceptedTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	return around(t.x, ctx, t.op("put row", partition, key), func() (storage.ETag, error) { return t.t.Put(ctx, partition, key, data, cond) })
}

func (t interceptedTable) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	return t.x.call(ctx, t.op("delete row", partition, key), func() error { return t.t.Delete(ctx, partition, key, cond) })
}

func (t interceptedTable) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	return listed(t.x, ctx, t.partitionOp("query", partition), t.t.Query(ctx, partition, r))
}

func (t interceptedTable) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	return t.x.call(ctx, t.partitionOp("put rows", partition), func() error { return t.t.PutBatch(ctx, partition, rows) })
}

func (t interceptedTable) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	return t.x.call(ctx, t.partitionOp("delete rows", partition), func() error { return t.t.DeleteBatch(ctx, partition, keys) })
}

// Link is a store as seen by one process, over a connection that can be cut and restored while the process runs.
// Other processes on the same store have their own links, or none. A Link has the store's abilities, and may be
// used concurrently.
type Link struct {
	*storage.Store
	cut atomic.Pointer[[]string] // the names of calls that fail, none for all; nil if uncut
}

// NewLink makes an uncut link to s.
func NewLink(s *storage.Store) *Link {
	l := &Link{}
	l.Store = Intercept(s, func(_ context.Context, op Op, do func() error) error {
		if names := l.cut.Load(); names != nil && (len(*names) == 0 || slices.Contains(*names, op.Name)) {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	return l
}

// Cut makes calls of the given names (see [Op]) fail with storage.ErrUnavailable, without effect; without names,
// all calls. Calls under way go on. It replaces an earlier cut.
func (l *Link) Cut(names ...string) { l.cut.Store(&names) }

// Restore ends the cut, if there is one.
func (l *Link) Restore() { l.cut.Store(nil) }

// Calls counts the calls that pass its Hook method. The zero value is ready.
type Calls struct {
	mu  sync.Mutex
	ops []Op // in the order of their beginnings; under mu
}

// Hook counts a call and performs it.
func (c *Calls) Hook(_ context.Context, op Op, do func() error) error {
	c.mu.Lock()
	c.ops = append(c.ops, op)
	c.mu.Unlock()
	return do()
}

// Count returns the number of calls with the given names, or of all calls if none is given.
func (c *Calls) Count(names ...string) int {
	n := 0
	for _, op := range c.Ops() {
		if len(names) == 0 || slices.Contains(names, op.Name) {
			n++
		}
	}
	return n
}

// Ops lists the calls so far.
func (c *Calls) Ops() []Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ops)
}
