package storagetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func receiptTests() []test {
	return []test{
		{"a delivery kills the receipt before it", deliveryKills},
		{"an ended visibility alone kills nothing", endedStillWorks},
		{"a late extension hides what waits behind others", extendBehind},
		{"extend gives a new receipt", extendNewReceipt},
		{"extend hides for longer", extendLonger},
		{"extend can shorten", extendShorter},
		{"extend by nothing hands back", extendZero},
		{"rewrite replaces the body", rewriteBody},
		{"rewrite hides for its delay", rewriteDelay},
		{"a message retried with back-off", retryStory},
		{"delete names exactly the dead receipts", deleteMixed},
		{"a deleted message is out of reach", deletedOutOfReach},
		{"one receipt twice in one delete", deleteTwiceInOne},
		{"receipts of another queue", foreignReceipts},
		{"garbage receipts", garbageReceipts},
	}
}

func deliveryKills(t *check) {
	q := t.queue()
	q.send("body")
	old := q.one(t.short())
	d := q.one(hold)
	if d.Receipt == old.Receipt {
		t.Fatal("the second delivery has the receipt of the first")
	}
	q.dead(old.Receipt)
	q.none()
	r, err := q.Extend(t.ctx, d.Receipt, 0)
	t.ok(err)
	q.dead(old.Receipt)
	d = q.one(hold)
	t.bytesEqual("body", d.Body, []byte("body"))
	if d.Deliveries != 3 {
		t.Errorf("Deliveries = %d; want 3", d.Deliveries)
	}
	q.dead(r)
	q.remove(d)
	q.gone()
}

func endedStillWorks(t *check) {
	// Each case has its own queue: a Receive for one message would deliver another.
	a, b, c := t.queue(), t.queue(), t.queue()
	var ds []storage.Delivery
	for _, q := range []*queue{a, b, c} {
		q.send("body")
		ds = append(ds, q.one(t.short()))
	}
	t.past(time.Now(), t.short())
	r, err := a.Extend(t.ctx, ds[0].Receipt, hold)
	t.ok(err)
	a.none()
	t.ok(b.Rewrite(t.ctx, ds[1].Receipt, []byte("new"), hold))
	b.none()
	c.remove(ds[2])
	c.gone()
	t.ok(a.Delete(t.ctx, []storage.Receipt{r}))
	a.gone()
}

// extendBehind has two visibilities end, and one of the messages delivered again. By then a store may have made the
// other one ready, too.
func extendBehind(t *check) {
	q := t.queue()
	q.send("a", "b")
	held := map[string]storage.Receipt{}
	for _, d := range q.take(2, t.short()) {
		held[string(d.Body)] = d.Receipt
	}
	t.past(time.Now(), t.short())
	again := q.one(hold)
	delete(held, string(again.Body))
	for body, late := range held {
		r, err := q.Extend(t.ctx, late, hold)
		t.ok(err)
		q.none()
		q.remove(storage.Delivery{Body: []byte(body), Receipt: r})
	}
	q.remove(again)
	q.gone()
}

func extendNewReceipt(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	last := d.Receipt
	for range 3 {
		r, err := q.Extend(t.ctx, last, hold)
		t.ok(err)
		if r == "" || r == last {
			t.Fatalf("Extend returned receipt %q; want a new one", r)
		}
		q.dead(last)
		last = r
	}
	q.dead(d.Receipt)
	q.none()
	r, err := q.Extend(t.ctx, last, 0)
	t.ok(err)
	again := q.one(hold)
	t.bytesEqual("body", again.Body, []byte("body"))
	if again.Deliveries != 2 {
		t.Errorf("Deliveries = %d; want 2: extending is no delivery", again.Deliveries)
	}
	q.dead(r)
	q.remove(again)
	q.gone()
}

func extendLonger(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(t.short())
	r, err := q.Extend(t.ctx, d.Receipt, hold)
	t.ok(err)
	t.past(time.Now(), t.short())
	q.none()
	t.ok(q.Delete(t.ctx, []storage.Receipt{r}))
	q.gone()
}

func extendShorter(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	t0 := time.Now()
	r, err := q.Extend(t.ctx, d.Receipt, t.short())
	t.ok(err)
	d = q.one(hold)
	if early := t.short() - t.cfg.Precision - time.Since(t0); early > 0 {
		t.Errorf("delivered %v before the visibility ended", early)
	}
	q.dead(r)
	q.remove(d)
}

func extendZero(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	q.none()
	_, err := q.Extend(t.ctx, d.Receipt, 0)
	t.ok(err)
	q.dead(d.Receipt)
	d = q.one(hold)
	if d.Deliveries != 2 {
		t.Errorf("Deliveries = %d; want 2", d.Deliveries)
	}
	r, err := q.Extend(t.ctx, d.Receipt, 0)
	t.ok(err)
	t.ok(q.Delete(t.ctx, []storage.Receipt{r})) // no process has received it since
	q.gone()
}

func rewriteBody(t *check) {
	for _, body := range []string{"", "short", "\x00\xff", strings.Repeat("long", 500)} {
		q := t.queue()
		q.send("the body before")
		d := q.one(hold)
		t.ok(q.Rewrite(t.ctx, d.Receipt, []byte(body), 0))
		q.dead(d.Receipt)
		again := q.one(hold)
		t.bytesEqual("body", again.Body, []byte(body))
		if again.Deliveries != 2 {
			t.Errorf("Deliveries = %d; want 2: rewriting does not start the count again", again.Deliveries)
		}
		q.dead(d.Receipt)
		q.remove(again)
		q.gone()
	}
}

func rewriteDelay(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	t0 := time.Now()
	t.ok(q.Rewrite(t.ctx, d.Receipt, []byte("new"), t.short()))
	q.dead(d.Receipt)
	d = q.one(hold)
	if early := t.short() - t.cfg.Precision - time.Since(t0); early > 0 {
		t.Errorf("delivered %v before the delay ended", early)
	}
	t.bytesEqual("body", d.Body, []byte("new"))
	q.remove(d)
	q.gone()
}

func retryStory(t *check) {
	q := t.queue()
	q.send("attempt 1")
	for attempt := 1; attempt <= 4; attempt++ {
		d := q.one(hold)
		t.bytesEqual("body", d.Body, fmt.Appendf(nil, "attempt %d", attempt))
		if d.Deliveries != attempt {
			t.Errorf("Deliveries = %d at attempt %d", d.Deliveries, attempt)
		}
		r, err := q.Extend(t.ctx, d.Receipt, hold) // the worker renews while it tries
		t.ok(err)
		delay := time.Duration(attempt) * 20 * time.Millisecond
		t.ok(q.Rewrite(t.ctx, r, fmt.Appendf(nil, "attempt %d", attempt+1), delay))
	}
	q.remove(q.one(hold))
	q.gone()
}

func deleteMixed(t *check) {
	q := t.queue()
	q.send(numbered(8)...)
	ds := q.take(8, hold)
	q.remove(ds[0], ds[3])
	newer, err := q.Extend(t.ctx, ds[5].Receipt, hold)
	t.ok(err)
	t.ok(q.Rewrite(t.ctx, ds[7].Receipt, nil, hold))

	err = q.Delete(t.ctx, receipts(ds))
	t.fails(err, storage.ErrReceiptStale, q.name, string(ds[0].Receipt))
	t.stale(err, q.name, ds[0].Receipt, ds[3].Receipt, ds[5].Receipt, ds[7].Receipt)
	for _, i := range []int{1, 2, 4, 6} { // deleted although the first of the batch was dead
		q.dead(ds[i].Receipt)
	}
	t.ok(q.Delete(t.ctx, []storage.Receipt{newer}))
	q.none()
}

func deletedOutOfReach(t *check) {
	q := t.queue()
	q.send("body")
	t0 := time.Now()
	d := q.one(t.short())
	q.remove(d)
	q.dead(d.Receipt)
	t.past(t0, 2*t.short())
	q.gone()
	q.dead(d.Receipt)
}

func deleteTwiceInOne(t *check) {
	q := t.queue()
	q.send("body", "other")
	ds := q.take(2, hold)
	r := ds[0].Receipt
	if err := q.Delete(t.ctx, []storage.Receipt{r, r, ds[1].Receipt}); err != nil {
		t.stale(err, q.name, r)
	}
	q.gone()
}

func foreignReceipts(t *check) {
	a, b := t.queue(), t.queue()
	a.send(numbered(3)...)
	b.send("b", "ready")
	mine := b.one(hold)
	for _, d := range a.take(3, hold) {
		if d.Receipt == mine.Receipt { // receipts are not unique across queues
			continue
		}
		b.dead(d.Receipt)
		a.remove(d) // it works for its own queue
	}
	if left := b.rest(); len(left) != 1 {
		t.Errorf("%d ready messages left; want 1", len(left))
	}
	b.remove(mine)
}

func garbageReceipts(t *check) {
	q := t.queue()
	q.send("held", "ready")
	d := q.one(hold)
	own := string(d.Receipt)
	garbage := []string{
		"", " ", "0", "-1", "1", "x", "null", ":", "1:", ":1", "1:1", "1/1", "1.1", "a|b|c", "\x00", "\xff\xfe", "'; DROP TABLE messages; --", "%", "*", "../..",
		"99999999999999999999999999", "9223372036854775807", "e30=", "eyJpZCI6MX0=", "a\r\nb: c", "🎉", strings.Repeat("9", 10_000), strings.Repeat("x", 1<<20),
		own + "x", "x" + own, own[:len(own)-1], own[1:], " " + own, own + "\n", own + "\x00",
	}
	for _, g := range garbage {
		q.dead(storage.Receipt(g))
	}
	err := q.Delete(t.ctx, []storage.Receipt{"", d.Receipt, "garbage"})
	t.stale(err, q.name, "", "garbage")
	if left := q.rest(); len(left) != 1 {
		t.Errorf("%d ready messages left; want 1", len(left))
	}
	q.dead(d.Receipt)
}
