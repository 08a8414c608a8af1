package storagetest

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

func claimTests() []test {
	return []test{
		{"what is sent comes claimed", claimSent},
		{"what a commit sends comes claimed", claimCommit},
		{"never more than max", claimMost},
		{"nothing that is delayed", claimDelayed},
		{"a claim that has ended gets nothing", claimTaken},
		{"what was claimed comes back", claimComesBack},
		{"what was claimed is durable", claimDurable},
		{"bad arguments are no claim", claimBadArguments},
	}
}

// claiming is a claim under way.
type claiming struct {
	t     *check
	ready <-chan struct{}
	take  func() ([]storage.Delivery, time.Time)
}

// claimNext claims the next messages sent to the queue, or leaves the test out.
func (q *queue) claimNext(s *storage.Store, max int, visibility time.Duration) claiming {
	q.t.Helper()
	sub := s.Listen(q.name)
	q.t.Cleanup(sub.Close)
	ready, take, ok := sub.Claim(max, visibility)
	if !ok {
		q.t.leaveOut("nothing can be claimed")
	}
	return claiming{q.t, ready, func() ([]storage.Delivery, time.Time) { return take(q.t.ctx) }}
}

func (c claiming) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// brings fails the test unless the claim returns these messages, all in their first delivery, and claimed at or
// after from.
func (c claiming) brings(from time.Time, want ...string) []storage.Delivery {
	c.t.Helper()
	c.t.eventually("something claimed", c.isReady)
	got, since := c.take()
	c.t.equal("bodies", bodies(got), want)
	if since.Before(from) || since.After(time.Now()) {
		c.t.Errorf("claimed at %v; want it between %v and now", since, from)
	}
	for _, d := range got {
		if d.Deliveries != 1 || d.SentAt.IsZero() {
			c.t.Errorf("delivered %d times, sent at %v; want the first time, and when", d.Deliveries, d.SentAt)
		}
	}
	return got
}

func (c claiming) bringsNothing() {
	c.t.Helper()
	if got, _ := c.take(); len(got) > 0 {
		c.t.Errorf("claimed %q; want nothing", bodies(got))
	}
}

func claimSent(t *check) {
	q := t.queue()
	q.send("before")
	c := q.claimNext(t.s, 10, hold)
	if c.isReady() {
		t.Error("ready before anything was sent")
	}
	now := time.Now()
	q.send("a")
	got := c.brings(now, "a")
	q.send("after")
	t.equal("receivable besides", q.rest(), []string{"before", "after"})
	t.ok(q.Delete(t.ctx, receipts(got)))
}

func claimCommit(t *check) {
	q := t.queue()
	c := q.claimNext(t.s, 10, hold)
	now := time.Now()
	t.commit(storage.Work{Send: []storage.Send{send(q.name, "a")}})
	t.ok(q.Delete(t.ctx, receipts(c.brings(now, "a"))))
	q.gone()
}

func claimMost(t *check) {
	q := t.queue()
	c := q.claimNext(t.s, 2, hold)
	now := time.Now()
	q.send("a", "b", "c")
	c.brings(now, "a", "b")
	t.equal("receivable besides", q.rest(), []string{"c"})
}

func claimDelayed(t *check) {
	q := t.queue()
	const delay = time.Second
	c := q.claimNext(t.s, 10, hold)
	now := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("later"), Delay: delay}}))
	q.notBefore(now, delay, hold)
	c.bringsNothing()
}

func claimTaken(t *check) {
	q := t.queue()
	c := q.claimNext(t.s, 10, hold)
	c.bringsNothing()
	q.send("a")
	t.equal("receivable", q.rest(), []string{"a"})
	c.bringsNothing()
}

func claimComesBack(t *check) {
	q := t.queue()
	const visibility = 2 * time.Second
	c := q.claimNext(t.s, 1, visibility)
	now := time.Now()
	q.send("a")
	old := c.brings(now, "a")
	again := q.notBefore(now, visibility, hold)
	if again.Deliveries != 2 {
		t.Errorf("delivery %d; want 2", again.Deliveries)
	}
	t.stale(q.Delete(t.ctx, receipts(old)), q.name, receipts(old)...)
}

// claimDurable deletes claimed messages by another store of the same place as soon as they are claimed.
func claimDurable(t *check) {
	s := t.own()
	q := t.queueIn(s, t.name("queue"))
	c := q.claimNext(s, 1, hold)
	other := t.queueIn(t.again(s), q.name)
	now := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- q.Send(t.ctx, []storage.Message{{Body: []byte("a")}}) }()
	got := c.brings(now, "a")
	other.none()
	t.ok(other.Delete(t.ctx, receipts(got)))
	t.ok(<-sent)
	other.gone()
	q.gone()
}

func claimBadArguments(t *check) {
	q := t.queue()
	q.claimNext(t.s, 1, hold).bringsNothing()
	for _, x := range []struct {
		topic      string
		max        int
		visibility time.Duration
	}{
		{q.name, 0, hold}, {q.name, -1, hold}, {q.name, 1, 0}, {q.name, 1, -time.Second},
		{q.name, 1, storage.MinVisibility - 1}, {q.name, 1, storage.MaxVisibility + 1}, {"Bad Name", 1, hold},
	} {
		sub := t.s.Listen(x.topic)
		if _, _, ok := sub.Claim(x.max, x.visibility); ok {
			t.Errorf("Claim(%d, %v) of %q: got ok; want none", x.max, x.visibility, x.topic)
		}
		q.send("a")
		t.equal("receivable", q.rest(), []string{"a"})
		sub.Close()
	}
}
