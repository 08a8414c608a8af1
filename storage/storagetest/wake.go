package storagetest

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

func wakeTests() []test {
	return []test{
		{"after a send", wakeSend},
		{"after a commit", wakeCommit},
		{"after handing back", wakeHandBack},
		{"at the end of a delay", wakeDelay},
		{"at the end of a visibility", wakeVisibility},
		{"all watchers of a queue", wakeAll},
		{"rings nobody takes are folded", wakeFolded},
		{"after stop no more", wakeStop},
		{"watching what can't be", wakeNonsense},
		{"from a second store", wakeSecond},
	}
}

func (t *check) waker(s storage.Store) storage.Waker {
	t.Helper()
	w, ok := storage.As[storage.Waker](s)
	if !ok {
		t.leaveOut("the store is no Waker")
	}
	return w
}

// rings demands a ring, at or after from. A ring may rarely be missing, so act is done again a few times.
// Rings before from are for nothing.
func (t *check) rings(ring <-chan struct{}, act func() (from time.Time)) {
	t.Helper()
	const tries = 3
	for range tries {
		from := act().Add(-t.cfg.Precision)
		limit := time.NewTimer(max(0, time.Until(from)) + t.cfg.Patience/tries)
		for waiting := true; waiting; {
			select {
			case _, ok := <-ring:
				if !ok {
					t.Fatal("the channel was closed")
				}
				if !time.Now().Before(from) {
					limit.Stop()
					return
				}
			case <-limit.C:
				waiting = false
			}
		}
	}
	t.Fatalf("no ring in %d tries", tries)
}

// quiet takes rings that are under way.
func (t *check) quiet(ring <-chan struct{}) {
	calm := time.NewTimer(150 * time.Millisecond)
	defer calm.Stop()
	for {
		select {
		case <-ring:
		case <-calm.C:
			return
		}
	}
}

func (t *check) watch(q *queue) <-chan struct{} {
	t.Helper()
	ring, stop := t.waker(t.s).Wake(q.name)
	t.Cleanup(stop)
	return ring
}

func wakeSend(t *check) {
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

func wakeCommit(t *check) {
	q := t.queue()
	ring := t.watch(q)
	t.rings(ring, func() time.Time {
		now := time.Now()
		t.commit(storage.Work{Send: []storage.Send{send(q.name, "body")}})
		return now
	})
}

func wakeHandBack(t *check) {
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

func wakeDelay(t *check) {
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

func wakeVisibility(t *check) {
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

func wakeAll(t *check) {
	q := t.queue()
	for _, ring := range []<-chan struct{}{t.watch(q), t.watch(q), t.watch(q)} {
		t.rings(ring, func() time.Time {
			now := time.Now()
			q.send("body")
			return now
		})
	}
	// One send wakes all: each has heard at least one of a few.
	a, b := t.watch(q), t.watch(q)
	heard := map[string]bool{}
	for i := 0; i < 5 && len(heard) < 2; i++ {
		q.send("body")
		limit := time.NewTimer(t.cfg.Patience / 5)
		for waiting := true; waiting && len(heard) < 2; {
			select {
			case <-a:
				heard["a"] = true
			case <-b:
				heard["b"] = true
			case <-limit.C:
				waiting = false
			}
		}
		limit.Stop()
	}
	if len(heard) < 2 {
		t.Errorf("of two watchers only %v heard", heard)
	}
}

func wakeFolded(t *check) {
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

func wakeStop(t *check) {
	q := t.queue()
	stopped, stop := t.waker(t.s).Wake(q.name)
	other := t.watch(q)
	t.rings(stopped, func() time.Time {
		now := time.Now()
		q.send("body")
		return now
	})
	stop()
	t.quiet(other)
	for range len(stopped) { // a ring from before
		<-stopped
	}
	t.rings(other, func() time.Time {
		now := time.Now()
		q.send("body")
		return now
	})
	t.quiet(other)
	select {
	case _, ok := <-stopped:
		if ok {
			t.Error("a ring after stop")
		}
	default:
	}
}

func wakeNonsense(t *check) {
	s := t.own()
	w := t.waker(s)
	for _, name := range []string{"", "Bad_Name", "\x00"} {
		ring, stop := w.Wake(name)
		if ring == nil {
			t.Errorf("Wake(%q) has no channel", name)
		}
		stop()
	}
	_, before := w.Wake("queue")
	t.ok(s.Close())
	_, after := w.Wake("queue")
	before()
	after()
}

func wakeSecond(t *check) {
	a := t.own()
	w := t.waker(a)
	b := t.again(a)
	name := t.name("queue")
	t.queueIn(a, name).none()
	ring, stop := w.Wake(name)
	defer stop()
	t.quiet(ring)
	t.rings(ring, func() time.Time {
		now := time.Now()
		t.queueIn(b, name).send("body")
		return now
	})
	t.equal("sent", bodies(t.queueIn(a, name).take(1, hold)), []string{"body"})
}
