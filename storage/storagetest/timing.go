package storagetest

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

func timingTests() []test {
	return []test{
		{"a message comes back when its visibility ends", comesBack},
		{"a message comes back again and again", comesBackAgain},
		{"a delayed message is not early and not lost", delayedSend},
		{"every message has its own delay", ownDelays},
		{"a fraction of a second in a delay", delayFraction},
		{"a fraction of a second in a visibility", visibilityFraction},
	}
}

// notBefore polls for one message. It fails the test if the message came earlier than d after t0, the time just
// before the call that hid it.
func (q *queue) notBefore(t0 time.Time, d, visibility time.Duration) storage.Delivery {
	q.t.Helper()
	got := q.one(visibility)
	if early := d - q.t.cfg.Precision - time.Since(t0); early > 0 {
		q.t.Errorf("delivered %v too early", early)
	}
	return got
}

func comesBack(t *check) {
	q := t.queue()
	q.send("body")
	t0 := time.Now()
	first := q.one(t.short())
	d := q.notBefore(t0, t.short(), hold)
	t.bytesEqual("body", d.Body, []byte("body"))
	if first.Deliveries != 1 || d.Deliveries != 2 {
		t.Errorf("Deliveries = %d, then %d; want 1, then 2", first.Deliveries, d.Deliveries)
	}
	q.remove(d)
	q.gone()
}

func comesBackAgain(t *check) {
	q := t.queue()
	q.send("a", "b")
	count := map[string]int{}
	t.eventually("three deliveries of two messages", func() bool {
		ds, err := q.Receive(t.ctx, 2, storage.MinVisibility)
		t.ok(err)
		for _, d := range ds {
			if count[string(d.Body)]++; count[string(d.Body)] != d.Deliveries {
				t.Fatalf("Deliveries = %d at delivery %d", d.Deliveries, count[string(d.Body)])
			}
		}
		return count["a"] >= 3 && count["b"] >= 3
	})
}

func delayedSend(t *check) {
	q := t.queue()
	t0 := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("body"), Delay: t.short()}}))
	d := q.notBefore(t0, t.short(), hold)
	t.bytesEqual("body", d.Body, []byte("body"))
	if d.Deliveries != 1 {
		t.Errorf("Deliveries = %d; want 1", d.Deliveries)
	}
	q.remove(d)
	q.gone()
}

func ownDelays(t *check) {
	q := t.queue()
	t0 := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{
		{Body: []byte("far"), Delay: hold},
		{Body: []byte("soon"), Delay: t.short()},
		{Body: []byte("now")},
	}))
	t.bytesEqual("first", q.one(hold).Body, []byte("now"))
	t.bytesEqual("second", q.notBefore(t0, t.short(), hold).Body, []byte("soon"))
	q.none()
}

func (t *check) needFractions() time.Duration {
	t.Helper()
	if t.cfg.Precision > 250*time.Millisecond {
		t.leaveOut("the driver is not that precise")
	}
	return 1500 * time.Millisecond
}

func delayFraction(t *check) {
	d := t.needFractions()
	q := t.queue()
	t0 := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{{Delay: d}}))
	q.notBefore(t0, d, hold)
}

func visibilityFraction(t *check) {
	d := t.needFractions()
	q := t.queue()
	q.send("body")
	t0 := time.Now()
	q.one(d)
	q.notBefore(t0, d, hold)
}
