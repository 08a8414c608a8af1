package storagetest

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

func awaitTests() []test {
	return []test{
		{"what is sent comes claimed", awaitSent},
		{"what a commit sends comes claimed", awaitCommit},
		{"never more than max", awaitMost},
		{"nothing that is delayed", awaitDelayed},
		{"who has left gets nothing", awaitLeft},
		{"what was handed over comes back", awaitComesBack},
		{"bad arguments bring nothing", awaitNonsense},
	}
}

// awaited is an Await under way.
type awaited struct {
	t     *check
	ready <-chan struct{}
	take  func() storage.Handed
}

func (q *queue) await(max int, visibility time.Duration) awaited {
	q.t.Helper()
	a, ok := q.Queue.(storage.Awaiter)
	if !ok {
		q.t.leaveOut("no Awaiter")
	}
	ready, take := a.Await(max, visibility)
	return awaited{q.t, ready, func() storage.Handed { return take(q.t.ctx) }}
}

func (a awaited) isReady() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// brings demands messages, all delivered for the first time and claimed since a moment that isn't before from.
func (a awaited) brings(from time.Time, want ...string) []storage.Delivery {
	a.t.Helper()
	a.t.eventually("something handed over", a.isReady)
	h := a.take()
	a.t.equal("bodies", bodies(h.Deliveries), want)
	if h.Over == nil || h.Committed == nil {
		a.t.Fatal("nothing tells whether what was handed over is committed")
	}
	select {
	case <-h.Over:
		if !h.Committed() {
			a.t.Error("what was handed over was not committed, though nothing failed")
		}
	case <-a.t.ctx.Done():
		a.t.Fatal("the commit of what was handed over doesn't end")
	}
	if h.Since.Before(from) || h.Since.After(time.Now()) {
		a.t.Errorf("claimed at %v; want it between %v and now", h.Since, from)
	}
	for _, d := range h.Deliveries {
		if d.Deliveries != 1 || d.SentAt.IsZero() {
			a.t.Errorf("delivered %d times, sent at %v; want the first time, and when", d.Deliveries, d.SentAt)
		}
	}
	return h.Deliveries
}

func (a awaited) bringsNothing() {
	a.t.Helper()
	if h := a.take(); len(h.Deliveries) > 0 {
		a.t.Errorf("handed over %q; want nothing", bodies(h.Deliveries))
	}
}

func awaitSent(t *check) {
	q := t.queue()
	q.send("before")
	a := q.await(10, hold)
	if a.isReady() {
		t.Error("ready before anything was sent")
	}
	now := time.Now()
	q.send("a")
	got := a.brings(now, "a")
	q.send("after")
	t.equal("receivable besides", q.rest(), []string{"before", "after"})
	t.ok(q.Delete(t.ctx, receiptsOf(got)))
}

func awaitCommit(t *check) {
	q := t.queue()
	a := q.await(10, hold)
	now := time.Now()
	t.commit(storage.Work{Send: []storage.Send{send(q.name, "a")}})
	t.ok(q.Delete(t.ctx, receiptsOf(a.brings(now, "a"))))
	q.gone()
}

func awaitMost(t *check) {
	q := t.queue()
	a := q.await(2, hold)
	now := time.Now()
	q.send("a", "b", "c")
	a.brings(now, "a", "b")
	t.equal("receivable besides", q.rest(), []string{"c"})
}

func awaitDelayed(t *check) {
	q := t.queue()
	const delay = time.Second
	a := q.await(10, hold)
	now := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("later"), Delay: delay}}))
	q.notBefore(now, delay, hold)
	a.bringsNothing()
}

func awaitLeft(t *check) {
	q := t.queue()
	a := q.await(10, hold)
	a.bringsNothing()
	q.send("a")
	t.equal("receivable", q.rest(), []string{"a"})
	a.bringsNothing()
}

func awaitComesBack(t *check) {
	q := t.queue()
	const visibility = 2 * time.Second
	a := q.await(1, visibility)
	now := time.Now()
	q.send("a")
	old := a.brings(now, "a")
	again := q.notBefore(now, visibility, hold)
	if again.Deliveries != 2 {
		t.Errorf("delivery %d; want 2", again.Deliveries)
	}
	t.stale(q.Delete(t.ctx, receiptsOf(old)), q.name, receiptsOf(old)...)
}

func awaitNonsense(t *check) {
	q := t.queue()
	for _, x := range []struct {
		queue      *queue
		max        int
		visibility time.Duration
	}{{q, 0, hold}, {q, -1, hold}, {q, 1, 0}, {q, 1, -time.Second}, {t.queueIn(t.s, "Bad Name"), 1, hold}} {
		a := x.queue.await(x.max, x.visibility)
		q.send("a")
		if a.isReady() {
			t.Errorf("Await(%d, %v) on %q is ready", x.max, x.visibility, x.queue.name)
		}
		a.bringsNothing()
	}
}

func receiptsOf(ds []storage.Delivery) []storage.Receipt {
	list := make([]storage.Receipt, len(ds))
	for i, d := range ds {
		list[i] = d.Receipt
	}
	return list
}
