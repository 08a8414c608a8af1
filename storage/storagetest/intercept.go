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
	// Name is one of "send", "receive", "extend", "rewrite", "delete", "stats", "get blob", "put blob",
	// "delete blob", "list blobs", "get row", "put row", "delete row", "query", "put rows", "delete rows" and "commit".
	Name string

	// Resource is "queue NAME", "blob CONTAINER/KEY", "container NAME", "row TABLE/PARTITION/KEY",
	// "partition TABLE/PARTITION", or for a commit the blob that it writes, else "work".
	Resource string

	// Seq numbers the calls of one Intercept from 1, in the order in which they begin.
	Seq int64

	// release makes the messages that the call names, or has received, receivable by anybody. nil for calls
	// that name none.
	release func(ctx context.Context)
}

// Fail makes the error that a driver would return for op.
func (op Op) Fail(kind error) error {
	return &storage.Error{Op: op.Name, Resource: op.Resource, Err: fmt.Errorf("%w: made up by a test", kind)}
}

// A Hook stands around every storage call. do performs the call and returns its error; what the hook
// returns is what the caller sees, with the results only if that is nil. So a hook fails a call before
// its effect by not calling do, after it (an answer that got lost) by returning an error of its own, and
// waits wherever it likes. Calling do twice performs the call twice, as a repeated request would.
//
//	// After the third call everything fails: a worker that has died.
//	s = storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
//		if op.Seq > 3 {
//			return op.Fail(storage.ErrUnavailable)
//		}
//		return do()
//	})
//
// A listing is one call; do runs the caller's loop over it. A hook is called concurrently.
type Hook func(ctx context.Context, op Op, do func() error) error

// Intercept wraps a store so that h stands around every call. It has the abilities that s has; commits and what is claimed
// pass through h too. Ring, Props, Requests and Close do not.
func Intercept(s *storage.Store, h Hook) *storage.Store {
	x := &intercepted{Store: s.Driver(), hook: h}
	if c := x.Store.Committer(); c != nil {
		x.committer = interceptedCommitter{x, c}
	}
	if l := x.Store.Listener(); l != nil {
		x.listener = interceptedListener{l, x}
	}
	return storage.New(x)
}

type intercepted struct {
	driver.Store
	hook      Hook
	committer driver.Committer // nil if there is none
	listener  driver.Listener  // likewise
	seq       atomic.Int64
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

// releasing makes claims receivable by anybody.
func (x *intercepted) releasing(claims ...storage.Claim) func(context.Context) {
	if len(claims) == 0 {
		return nil
	}
	return func(ctx context.Context) {
		for _, c := range claims {
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
				got[i].Receipt = r // works until somebody receives the message
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

// interceptedListener lets rings pass.
type interceptedListener struct {
	driver.Listener
	x *intercepted
}

func (l interceptedListener) Listen(topic string) driver.Subscription {
	return interceptedSubscription{l.Listener.Listen(topic), interceptedQueue{l.x, l.x.Store.Queue(topic), topic}}
}

// interceptedSubscription passes what was claimed through the hook as a receive, when it is taken: what the hook fails
// stays hidden until its visibility ends.
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
		got, since := take(ctx) // whatever becomes of it: nobody else would
		if len(got) > 0 {
			got, _ = s.q.receive(ctx, func() ([]storage.Delivery, error) { return got, nil })
		}
		return got, since
	}
}

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

func (b interceptedBlobs) List(ctx context.Context, prefix string) iter.Seq2[storage.BlobInfo, error] {
	return listed(b.x, ctx, Op{Name: "list blobs", Resource: "container " + b.name}, b.b.List(ctx, prefix))
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

// Link is a store as one process reaches it, by a way that can be cut and restored while the process runs; others on the same
// store have links of their own, or none. It has the abilities that the store has, and may be used concurrently.
type Link struct {
	*storage.Store
	cut atomic.Pointer[[]string] // the names of calls that fail, none for all; nil if it is whole
}

// NewLink makes a link to s that is whole.
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

// Cut makes calls that begin from now on fail with storage.ErrUnavailable, without effect: those of the given names (see [Op]),
// or all if none is given. Calls under way go on. It replaces an earlier cut.
func (l *Link) Cut(names ...string) { l.cut.Store(&names) }

// Restore ends the cut, if there is one.
func (l *Link) Restore() { l.cut.Store(nil) }

// Calls counts what passes through its Hook method. The zero value is ready.
type Calls struct {
	mu  sync.Mutex
	ops []Op // in the order in which they began to be counted; under mu
}

// Hook counts and performs.
func (c *Calls) Hook(_ context.Context, op Op, do func() error) error {
	c.mu.Lock()
	c.ops = append(c.ops, op)
	c.mu.Unlock()
	return do()
}

// Count tells how many calls of the given names there were, or of all names if none is given.
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
