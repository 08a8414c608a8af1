package storagetest

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

func listenTests() []test {
	return []test{
		{"after a send", ringsAfterSend},
		{"after a commit", ringsAfterCommit},
		{"after handing back", ringsAfterHandBack},
		{"at the end of a delay", ringsAfterDelay},
		{"at the end of a visibility", ringsAfterVisibility},
		{"all listeners of a queue", ringsForAll},
		{"rings nobody takes are folded", ringsFolded},
		{"after close no more", ringsUntilClosed},
		{"a bad topic never rings", ringsForBadTopics},
		{"what a second store sends", ringsFromSecond},
		{"a topic that is no queue rings all", ringTopic},
		{"a topic rings in a second store", ringTopicSecond},
	}
}

// listen subscribes until the test ends, or leaves the test out.
func (t *check) listen(s *storage.Store, topic string) *storage.Subscription {
	t.Helper()
	if !s.Rings() {
		t.leaveOut("nothing rings")
	}
	sub := s.Listen(topic)
	t.Cleanup(sub.Close)
	return sub
}

func (t *check) watch(q *queue) <-chan struct{} {
	t.Helper()
	return t.listen(t.s, q.name).Rings()
}

func ringsAfterSend(t *check) {
	q := t.queue()
	ring := t.watch(q)
	for range 3 {
		t.quiet(ring)
		t.rings(ring, func() time.Time {
			now := time.Now()
			q.send("body")
			return now
		})
	}
}

func ringsAfterCommit(t *check) {
	q := t.queue()
	ring := t.watch(q)
	t.rings(ring, func() time.Time {
		now := time.Now()
		t.commit(storage.Work{Send: []storage.Send{send(q.name, "body")}})
		return now
	})
}

func ringsAfterHandBack(t *check) {
	q := t.queue()
	ring := t.watch(q)
	q.send("body")
	for _, back := range []func(storage.Delivery) error{
		func(d storage.Delivery) error { _, err := q.Extend(t.ctx, d.Receipt, 0); return err },
		func(d storage.Delivery) error { return q.Rewrite(t.ctx, d.Receipt, nil, 0) },
	} {
		t.rings(ring, func() time.Time {
			d := q.one(hold)
			t.quiet(ring)
			now := time.Now()
			t.ok(back(d))
			return now
		})
	}
}

func ringsAfterDelay(t *check) {
	q := t.queue()
	ring := t.watch(q)
	t.rings(ring, func() time.Time {
		t0 := time.Now()
		t.ok(q.Send(t.ctx, []storage.Message{{Delay: t.short()}}))
		return t0.Add(t.short())
	})
	t.rings(ring, func() time.Time {
		d := q.one(hold)
		t0 := time.Now()
		t.ok(q.Rewrite(t.ctx, d.Receipt, nil, t.short()))
		return t0.Add(t.short())
	})
}

func ringsAfterVisibility(t *check) {
	if !t.cfg.RingsVisibility {
		t.leaveOut("Config.RingsVisibility is not set")
	}
	q := t.queue()
	ring := t.watch(q)
	q.send("body")
	t.rings(ring, func() time.Time {
		t0 := time.Now()
		q.one(t.short())
		return t0.Add(t.short())
	})
	t.rings(ring, func() time.Time {
		d := q.one(hold)
		t0 := time.Now()
		_, err := q.Extend(t.ctx, d.Receipt, t.short())
		t.ok(err)
		return t0.Add(t.short())
	})
}

func ringsForAll(t *check) {
	q := t.queue()
	for _, ring := range []<-chan struct{}{t.watch(q), t.watch(q), t.watch(q)} {
		t.rings(ring, func() time.Time {
			now := time.Now()
			q.send("body")
			return now
		})
	}
	t.bothRing(t.watch(q), t.watch(q), func() { q.send("body") })
}

func ringsFolded(t *check) {
	q := t.queue()
	ring := t.watch(q)
	if cap(ring) != 1 {
		t.Errorf("the channel has capacity %d; want 1", cap(ring))
	}
	t.within("sending while nobody takes the rings", func() {
		for range 20 {
			if err := q.Send(t.ctx, []storage.Message{{}}); err != nil {
				t.Errorf("send: %v", err)
			}
		}
	})
	t.rings(ring, func() time.Time {
		now := time.Now()
		q.send("body")
		return now
	})
}

func ringsUntilClosed(t *check) {
	q := t.queue()
	sub := t.listen(t.s, q.name)
	closed := sub.Rings()
	other := t.watch(q)
	t.rings(closed, func() time.Time {
		now := time.Now()
		q.send("body")
		return now
	})
	sub.Close()
	sub.Close() // a second Close is harmless
	t.quiet(other)
	for range len(closed) { // earlier rings
		<-closed
	}
	t.rings(other, func() time.Time {
		now := time.Now()
		q.send("body")
		return now
	})
	t.quiet(other)
	select {
	case _, ok := <-closed:
		if ok {
			t.Error("a ring after Close")
		}
	default:
	}
}

func ringsForBadTopics(t *check) {
	s := t.own()
	for _, topic := range []string{"", "Bad_Name", "\x00"} {
		sub := t.listen(s, topic)
		s.Ring(topic)
		t.quiet(sub.Rings())
		select {
		case <-sub.Rings():
			t.Errorf("topic %s rang", storage.Quote(topic))
		default:
		}
		sub.Close()
	}
	before := t.listen(s, "queue")
	t.ok(s.Close())
	after := t.listen(s, "queue")
	t.within("what follows Close of the store", func() {
		s.Ring("queue")
		before.Close()
		after.Close()
	})
}

func ringsFromSecond(t *check) {
	a := t.own()
	name := t.name("queue")
	ring := t.listen(a, name).Rings()
	b := t.again(a)
	t.queueIn(a, name).none()
	t.quiet(ring)
	t.rings(ring, func() time.Time {
		now := time.Now()
		t.queueIn(b, name).send("body")
		return now
	})
	t.equal("sent", bodies(t.queueIn(a, name).take(1, hold)), []string{"body"})
}

func ringTopic(t *check) {
	topic, other := t.name("topic"), t.name("topic")
	a, b := t.listen(t.s, topic).Rings(), t.listen(t.s, topic).Rings()
	third := t.listen(t.s, other).Rings()
	t.quiet(third)
	t.bothRing(a, b, func() { t.s.Ring(topic) })
	for _, ring := range []<-chan struct{}{a, b} { // each of them again
		t.rings(ring, func() time.Time {
			now := time.Now()
			t.s.Ring(topic)
			return now
		})
	}
	t.within("ringing while nobody takes the rings", func() {
		for range 20 {
			t.s.Ring(topic)
		}
	})
	t.queueIn(t.s, topic).gone() // a ring is no message
	t.rings(third, func() time.Time {
		now := time.Now()
		t.s.Ring(other)
		return now
	})
}

func ringTopicSecond(t *check) {
	a := t.own()
	topic := t.name("topic")
	mine := t.listen(a, topic).Rings()
	b := t.again(a)
	theirs := t.listen(b, topic).Rings()
	for _, s := range []*storage.Store{a, b} {
		t.bothRing(mine, theirs, func() { s.Ring(topic) })
	}
}
