package storagetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func findTests() []test {
	return []test{
		{"what is found can be deleted", findDeletes},
		{"a key finds its messages only", findByKey},
		{"what a commit sends has its key", findCommitted},
		{"finding is no delivery", findDelivers},
		{"a found receipt is good for deletion alone", findExtends},
		{"a message in flight has no receipt", findInFlight},
		{"a receipt dies with the delivery", findThenReceived},
		{"a rewritten message is found as it is", findRewritten},
		{"a finder or a receiver and never both", findRace},
		{"a second store finds it too", findByAnother},
	}
}

// keyed returns an unused queue of a store that finds messages, or leaves the test out.
func (t *check) keyed() *queue {
	t.Helper()
	if !t.s.Finds() {
		t.leaveOut("no message is found by its key")
	}
	return t.queue()
}

// sendKeyed sends messages with a key and a delay.
func (q *queue) sendKeyed(key string, delay time.Duration, bodies ...string) {
	q.t.Helper()
	for _, b := range bodies {
		q.t.ok(q.Send(q.t.ctx, []storage.Message{{Body: []byte(b), Key: key, Delay: delay}}))
	}
}

// find finds the messages with a key. It fails the test unless these are their bodies, in any order.
func (q *queue) find(key string, want ...string) []storage.Delivery {
	q.t.Helper()
	got, err := q.Find(q.t.ctx, key)
	q.t.ok(err)
	q.t.same("found by "+key, bodies(got), want)
	return got
}

func findDeletes(t *check) {
	q := t.keyed()
	q.find("key")
	q.sendKeyed("key", hold, "one")
	q.sendKeyed("key", 0, "two")
	ds := q.find("key", "one", "two")
	for _, d := range ds {
		if d.Receipt == "" || d.Deliveries != 0 || time.Since(d.SentAt).Abs() > 15*time.Minute {
			t.Errorf("found %+v; want a receipt, no deliveries, and when it was sent", d)
		}
		scribble(d.Body)
	}
	q.find("key", "one", "two")
	q.remove(ds...)
	q.find("key")
	q.gone()
	t.stale(q.Delete(t.ctx, receipts(ds)), q.name, receipts(ds)...)
}

func findByKey(t *check) {
	q, other := t.keyed(), t.queue()
	for i, key := range []string{"a", "A", "a ", "é", "%", `"`} {
		q.sendKeyed(key, hold, fmt.Sprint(i))
		other.sendKeyed(key, hold, "other")
	}
	q.send("without")
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("delayed"), Delay: hold}}))
	for i, key := range []string{"a", "A", "a ", "é", "%", `"`} {
		q.find(key, fmt.Sprint(i))
	}
	q.find("b")
	t.queue().find("a")
	q.remove(q.find("a", "0")...)
	q.find("A", "1")
	other.find("a", "other")
	t.equal("ready", q.rest(), []string{"without"})
	for _, key := range []string{"", "a\nb", string(filled(storage.MaxKey+1, 0))} {
		_, err := q.Find(t.ctx, key)
		t.fails(err, storage.ErrInvalid, q.name)
		if key != "" {
			t.fails(q.Send(t.ctx, []storage.Message{{Key: key}}), storage.ErrInvalid, q.name)
		}
	}
}

func findCommitted(t *check) {
	q := t.keyed()
	t.commit(storage.Work{Send: []storage.Send{
		{Queue: q.name, Message: storage.Message{Body: []byte("one"), Key: "one", Delay: hold}},
		{Queue: q.name, Message: storage.Message{Body: []byte("two"), Key: "two"}},
	}})
	q.remove(q.find("two", "two")...)
	q.remove(q.find("one", "one")...)
	q.gone()
}

func findDelivers(t *check) {
	q := t.keyed()
	q.sendKeyed("key", 0, "body")
	for range 3 {
		q.find("key", "body")
	}
	if d := q.one(hold); d.Deliveries != 1 {
		t.Errorf("Deliveries = %d after it was found; want 1", d.Deliveries)
	}
}

func findExtends(t *check) {
	q := t.keyed()
	q.sendKeyed("key", hold, "body")
	r := q.find("key", "body")[0].Receipt
	for _, visibility := range []time.Duration{hold, 0} {
		_, err := q.Extend(t.ctx, r, visibility)
		t.fails(err, storage.ErrReceiptStale, q.name, string(r))
	}
	t.fails(q.Rewrite(t.ctx, r, []byte(secret), 0), storage.ErrReceiptStale, q.name, string(r))
	t.equal("ready", q.rest(), []string(nil))
	q.remove(q.find("key", "body")...)
}

func findInFlight(t *check) {
	q := t.keyed()
	q.sendKeyed("key", 0, "body")
	without := func(when string) {
		t.Helper()
		if d := q.find("key", "body")[0]; d.Receipt != "" {
			t.Errorf("%s it has a receipt", when)
		}
	}
	t0 := time.Now()
	d := q.one(t.short())
	without("in flight")
	t.past(t0, t.short())
	without("when its visibility has ended")
	r, err := q.Extend(t.ctx, d.Receipt, hold)
	t.ok(err)
	without("extended")
	r, err = q.Extend(t.ctx, r, 0)
	t.ok(err)
	without("handed back at once")
	d = q.one(hold)
	q.dead(r)
	q.remove(d)
	q.find("key")
}

func findThenReceived(t *check) {
	q := t.keyed()
	q.sendKeyed("key", t.short(), "body")
	found := q.find("key", "body")
	d := q.one(hold)
	t.stale(q.Delete(t.ctx, receipts(found)), q.name, receipts(found)...)
	q.find("key", "body")
	q.remove(d) // still the holder
	q.gone()
}

func findRewritten(t *check) {
	q := t.keyed()
	q.sendKeyed("key", 0, "old")
	d := q.one(hold)
	t.ok(q.Rewrite(t.ctx, d.Receipt, []byte("new"), hold))
	q.dead(d.Receipt)
	found := q.find("key", "new")
	if found[0].Deliveries != 1 {
		t.Errorf("Deliveries = %d; want 1", found[0].Deliveries)
	}
	q.remove(found...)
	q.gone()
}

func findRace(t *check) {
	q := t.keyed()
	n := max(t.many(60), 20)
	for _, b := range numbered(n) {
		q.sendKeyed(b, 0, b)
	}
	all := make([]storage.Delivery, n)
	for i := range n {
		all[i] = q.find(fmt.Sprint(i), fmt.Sprint(i))[0]
	}
	var mu sync.Mutex
	first, err := q.Receive(t.ctx, 1, hold) // one at least is received before the finders come
	t.ok(err)
	got := bodies(first)
	found := 0
	crowd(4, func(i int) {
		for j := range n {
			var ds []storage.Delivery
			if i%2 == 0 {
				var err error
				if ds, err = q.Receive(t.ctx, 1, hold); err != nil {
					t.Errorf("receive: %v", err)
				}
			} else if j%2 == i/2 && q.Delete(t.ctx, receipts(all[j:j+1])) == nil { // else a receiver has it
				ds = all[j : j+1]
			}
			mu.Lock()
			got = append(got, bodies(ds)...)
			found += i % 2 * len(ds)
			mu.Unlock()
		}
	})
	t.same("received or found", append(got, q.rest()...), numbered(n))
	if found == 0 || found == n {
		t.Logf("of %d messages the finders got %d: there was no race", n, found)
	}
}

func findByAnother(t *check) {
	if !t.s.Finds() {
		t.leaveOut("no message is found by its key")
	}
	s := t.own()
	q := t.queueIn(s, t.name("queue"))
	q.sendKeyed("key", hold, "body")
	other := t.queueIn(t.again(s), q.name)
	other.remove(other.find("key", "body")...)
	q.find("key")
	q.gone()
}
