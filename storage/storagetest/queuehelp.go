package storagetest

import (
	"strconv"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// queue is a queue under test with its name.
type queue struct {
	*storage.Queue
	t    *check
	name string
}

// queue returns an unused queue in the shared store.
func (t *check) queue() *queue { return t.queueIn(t.s, t.name("queue")) }

func (t *check) queueIn(s *storage.Store, name string) *queue {
	return &queue{Queue: s.Queue(name), t: t, name: name}
}

// send sends bodies in one batch.
func (q *queue) send(bodies ...string) {
	q.t.Helper()
	messages := make([]storage.Message, len(bodies))
	for i, b := range bodies {
		messages[i].Body = []byte(b)
	}
	q.t.ok(q.Send(q.t.ctx, messages))
}

// take receives until it has n messages.
func (q *queue) take(n int, visibility time.Duration) []storage.Delivery {
	q.t.Helper()
	var got []storage.Delivery
	q.t.eventually(strconv.Itoa(n)+" message(s) to receive", func() bool {
		for len(got) < n {
			ds, err := q.Receive(q.t.ctx, n-len(got), visibility)
			q.t.ok(err)
			if len(ds) > n-len(got) {
				q.t.Fatalf("Receive(%d) returned %d messages", n-len(got), len(ds))
			}
			if len(ds) == 0 {
				return false
			}
			got = append(got, ds...)
		}
		return true
	})
	return got
}

// one takes one message.
func (q *queue) one(visibility time.Duration) storage.Delivery {
	q.t.Helper()
	return q.take(1, visibility)[0]
}

// none fails the test if a message is receivable now.
func (q *queue) none() {
	q.t.Helper()
	ds, err := q.Receive(q.t.ctx, 1, hold)
	q.t.ok(err)
	if len(ds) != 0 {
		q.t.Fatalf("received %d message(s), the first %s (delivery %d); want none",
			len(ds), storage.Quote(string(ds[0].Body)), ds[0].Deliveries)
	}
}

// rest receives all messages that are ready now, and holds them.
func (q *queue) rest() []string {
	q.t.Helper()
	var got []string
	for {
		ds, err := q.Receive(q.t.ctx, 10, hold)
		q.t.ok(err)
		if len(ds) == 0 {
			return got
		}
		got = append(got, bodies(ds)...)
	}
}

// gone fails the test unless the queue is empty, as far as it can tell.
func (q *queue) gone() {
	q.t.Helper()
	q.none()
	q.t.eventually("empty stats", func() bool {
		st, err := q.Stats(q.t.ctx)
		q.t.ok(err)
		return st.Ready <= 0 && st.InFlight <= 0 && st.Delayed <= 0
	})
}

// dead fails the test if a receipt still has an effect.
func (q *queue) dead(r storage.Receipt) {
	q.t.Helper()
	_, err := q.Extend(q.t.ctx, r, hold)
	q.t.fails(err, storage.ErrReceiptStale, q.name, string(r))
	_, err = q.Extend(q.t.ctx, r, 0)
	q.t.fails(err, storage.ErrReceiptStale, q.name, string(r))
	err = q.Rewrite(q.t.ctx, r, []byte(secret), 0)
	q.t.fails(err, storage.ErrReceiptStale, q.name, string(r))
	err = q.Delete(q.t.ctx, []storage.Receipt{r})
	q.t.fails(err, storage.ErrReceiptStale, q.name, string(r))
	q.t.stale(err, q.name, r)
}

// remove deletes messages, and fails the test if a receipt was dead.
func (q *queue) remove(ds ...storage.Delivery) {
	q.t.Helper()
	q.t.ok(q.Delete(q.t.ctx, receipts(ds)))
}

func bodies(ds []storage.Delivery) []string {
	list := make([]string, len(ds))
	for i, d := range ds {
		list[i] = string(d.Body)
	}
	return list
}

func receipts(ds []storage.Delivery) []storage.Receipt {
	list := make([]storage.Receipt, len(ds))
	for i, d := range ds {
		list[i] = d.Receipt
	}
	return list
}

// numbered returns the texts "0" to "n-1".
func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}
