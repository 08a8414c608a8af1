package storagetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func propsTests() []test {
	return []test{
		{"are sane", propsSane},
		{"abilities asked for are there", abilitiesThere},
	}
}

func propsSane(t *check) {
	p := t.s.Props()
	if p.Driver == "" || p.MaxMessage < 1 || p.MaxBlob < 1 || p.MaxRow < 1 || p.MaxReceive < 1 || p.PollInterval <= 0 {
		t.Errorf("Props has an empty field: %+v", p)
	}
	if again := t.s.Props(); again != p {
		t.Errorf("Props changes: %+v, then %+v", p, again)
	}
}

func abilitiesThere(t *check) {
	if t.cfg.Atomic && !t.s.Atomic() {
		t.Error("Config.Atomic is set, but commits are not atomic")
	}
	if t.cfg.Finds && !t.s.Finds() {
		t.Error("Config.Finds is set, but no message is found by its key")
	}
	if t.cfg.Rings && !t.s.Rings() {
		t.Error("Config.Rings is set, but nothing rings")
	}
	sub := t.s.Listen(t.name("queue"))
	defer sub.Close()
	_, take, ok := sub.Claim(1, hold)
	if ok {
		take(t.ctx)
	}
	if t.cfg.Claims && !ok {
		t.Error("Config.Claims is set, but nothing can be claimed")
	}
}

// queueListed leaves other queues of the store alone: other tests use them meanwhile.
func queueListed(t *check) {
	if t.s.Driver().Lister() == nil {
		if got := lastError(t.s.Queues(t.ctx)); !errors.Is(got, storage.ErrUnsupported) {
			t.Errorf("without a Lister: got %v, want %v", got, storage.ErrUnsupported)
		}
		t.leaveOut("queues are not listed")
	}
	ready, delayed, taken := t.queue(), t.queue(), t.queue()
	ready.send("one", "two")
	t.ok(delayed.Send(t.ctx, []storage.Message{{Body: []byte("one"), Delay: hold}}))
	taken.send("one")
	taken.one(hold)
	times := map[string]int{}
	for name, err := range t.s.Queues(t.ctx) {
		t.ok(err)
		times[name]++
	}
	for _, q := range []*queue{ready, delayed, taken} {
		if times[q.name] != 1 {
			t.Errorf("queue %s was listed %d times, want once", q.name, times[q.name])
		}
	}
}

func queueTests() []test {
	return []test{
		{"send then receive then delete", sendReceiveDelete},
		{"bodies come back byte for byte", bodiesIntact},
		{"a body of exactly the limit", bodyAtLimit},
		{"one bad message and nothing of the batch is sent", badBatch},
		{"an empty batch is no effect", emptyBatch},
		{"the longest delay is taken", longestDelay},
		{"a queue never written to is empty", neverWritten},
		{"a queue with messages is listed", queueListed},
		{"receive refuses bad arguments", badReceive},
		{"extend and rewrite refuse bad arguments", badExtend},
		{"never more than max", neverMoreThanMax},
		{"max above the driver's most", maxAboveMost},
		{"a large batch arrives whole", largeBatch},
		{"queues are apart", queuesApart},
		{"stats count", statsCount},
		{"stats tell the oldest", statsOldest},
		{"sent at", sentAt},
	}
}

func sendReceiveDelete(t *check) {
	q := t.queue()
	q.send("one", "two", "three")
	ds := q.take(3, hold)
	t.same("bodies", bodies(ds), []string{"one", "two", "three"})
	seen := map[storage.Receipt]bool{}
	for _, d := range ds {
		if d.Deliveries != 1 {
			t.Errorf("Deliveries = %d at the first delivery", d.Deliveries)
		}
		if d.Receipt == "" || seen[d.Receipt] {
			t.Errorf("receipt %q is empty or given twice", d.Receipt)
		}
		seen[d.Receipt] = true
	}
	q.none()
	q.remove(ds...)
	q.gone()
}

func bodiesIntact(t *check) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	want := []string{
		"", "", "\x00", "\x00\x00\x00", "\xff\xfe", "a\xc3", "\xed\xa0\x80", string(all), string(all[1:]), string(all[2:]),
		"\r\n", "\r", " lead and trail ", "trail\n", "<a>&amp;]]>", `{"a":"\u0000"}`, "\ufeffbom", "\ufffe\uffff", "grüße 🎉",
		"YWJj", "0x00", "NULL", "%00", strings.Repeat("é", 3000), string(filled(1023, 1)), string(filled(1024, 2)), string(filled(1025, 3)),
	}
	messages := make([]storage.Message, len(want))
	for i, b := range want {
		messages[i].Body = []byte(b)
	}
	messages[0].Body = nil
	q := t.queue()
	t.ok(q.Send(t.ctx, messages))
	t.same("bodies", bodies(q.take(len(want), hold)), want)
}

func bodyAtLimit(t *check) {
	q := t.queue()
	want := filled(t.s.Props().MaxMessage, 0)
	t.ok(q.Send(t.ctx, []storage.Message{{Body: want}}))
	d := q.one(hold)
	t.bytesEqual("body", d.Body, want)
	want = filled(t.s.Props().MaxMessage, 9)
	t.ok(q.Rewrite(t.ctx, d.Receipt, want, 0))
	d = q.one(hold)
	t.bytesEqual("body rewritten", d.Body, want)

	err := q.Rewrite(t.ctx, d.Receipt, append(want, 1), 0)
	t.fails(err, storage.ErrTooLarge, q.name)
	q.none()
	q.remove(d) // the refused Rewrite had no effect
}

func badBatch(t *check) {
	good := storage.Message{Body: []byte(secret)}
	for _, x := range []struct {
		name string
		bad  storage.Message
		kind error
	}{
		{"too large", storage.Message{Body: filled(t.s.Props().MaxMessage+1, 0)}, storage.ErrTooLarge},
		{"negative delay", storage.Message{Delay: -1}, storage.ErrInvalid},
		{"delay over the limit", storage.Message{Delay: storage.MaxDelay + 1}, storage.ErrInvalid},
	} {
		for at := range 3 {
			q := t.queue()
			batch := []storage.Message{good, good, good}
			batch[at] = x.bad
			err := q.Send(t.ctx, batch)
			t.fails(err, x.kind, q.name)
			if want := fmt.Sprintf("%d of 3", at+1); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not name item %s", x.name, err, want)
			}
			q.gone()
		}
	}
}

func emptyBatch(t *check) {
	q := t.queue()
	t.ok(q.Send(t.ctx, nil))
	t.ok(q.Send(t.ctx, []storage.Message{}))
	q.gone()
	t.ok(q.Delete(t.ctx, nil))
}

func longestDelay(t *check) {
	q := t.queue()
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("late"), Delay: storage.MaxDelay}, {Body: []byte("now")}}))
	d := q.one(storage.MaxVisibility)
	t.bytesEqual("body", d.Body, []byte("now"))
	r, err := q.Extend(t.ctx, d.Receipt, storage.MaxVisibility)
	t.ok(err)
	t.ok(q.Rewrite(t.ctx, r, nil, storage.MaxDelay))
	q.none()
}

func neverWritten(t *check) {
	q := t.queue()
	q.gone()
	st, err := q.Stats(t.ctx)
	t.ok(err)
	if st.Oldest > 0 {
		t.Errorf("Oldest = %v in an empty queue", st.Oldest)
	}
	q.dead("nothing")
}

func badReceive(t *check) {
	q := t.queue()
	q.send(secret)
	for _, x := range []struct {
		max        int
		visibility time.Duration
	}{
		{0, hold}, {-1, hold}, {math.MinInt, hold}, {1, 0}, {1, -1}, {1, storage.MinVisibility - 1}, {1, storage.MaxVisibility + 1},
	} {
		ds, err := q.Receive(t.ctx, x.max, x.visibility)
		t.fails(err, storage.ErrInvalid, q.name)
		if len(ds) != 0 {
			t.Errorf("Receive(%d, %v) failed and returned %d messages", x.max, x.visibility, len(ds))
		}
	}
	if d := q.one(storage.MinVisibility); d.Deliveries != 1 {
		t.Errorf("Deliveries = %d after refused receives; want 1", d.Deliveries)
	}
}

func badExtend(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	for _, v := range []time.Duration{-1, 1, storage.MinVisibility - 1, storage.MaxVisibility + 1, math.MinInt64} {
		_, err := q.Extend(t.ctx, d.Receipt, v)
		t.fails(err, storage.ErrInvalid, q.name, string(d.Receipt))
	}
	for _, delay := range []time.Duration{-1, storage.MaxDelay + 1, math.MinInt64} {
		t.fails(q.Rewrite(t.ctx, d.Receipt, []byte(secret), delay), storage.ErrInvalid, q.name, string(d.Receipt))
	}
	q.none()
	q.remove(d) // still the holder
}

func neverMoreThanMax(t *check) {
	q := t.queue()
	q.send(numbered(12)...)
	var got []storage.Delivery
	t.eventually("12 messages by threes", func() bool {
		ds, err := q.Receive(t.ctx, 3, hold)
		t.ok(err)
		if len(ds) > 3 {
			t.Fatalf("Receive(3) returned %d messages", len(ds))
		}
		got = append(got, ds...)
		return len(got) >= 12
	})
	t.same("bodies", bodies(got), numbered(12))
}

func maxAboveMost(t *check) {
	most := t.s.Props().MaxReceive
	n := min(most+5, 150)
	q := t.queue()
	q.send(numbered(n)...)
	var got []storage.Delivery
	t.eventually("all messages", func() bool {
		for _, ask := range []int{most + 1, math.MaxInt} {
			ds, err := q.Receive(t.ctx, ask, hold)
			t.ok(err)
			if len(ds) > most {
				t.Fatalf("Receive(%d) returned %d messages; Props.MaxReceive is %d", ask, len(ds), most)
			}
			got = append(got, ds...)
		}
		return len(got) >= n
	})
	t.same("bodies", bodies(got), numbered(n))
}

func largeBatch(t *check) {
	n := max(t.many(150), 40)
	q := t.queue()
	q.send(numbered(n)...)
	ds := q.take(n, hold)
	t.same("bodies", bodies(ds), numbered(n))
	q.remove(ds...)
	q.gone()
}

func queuesApart(t *check) {
	a, b := t.queue(), t.queue()
	a.send("a")
	b.none()
	b.send("b")
	t.equal("a", bodies(a.take(1, hold)), []string{"a"})
	t.equal("b", bodies(b.take(1, hold)), []string{"b"})
}

func statsCount(t *check) {
	q := t.queue()
	is := func(ready, inFlight, delayed int64) {
		t.Helper()
		var st storage.Stats
		defer func() {
			if t.Failed() {
				t.Logf("stats %+v; want ready %d, in flight %d, delayed %d (or -1)", st, ready, inFlight, delayed)
			}
		}()
		t.eventually("stats", func() bool {
			var err error
			st, err = q.Stats(t.ctx)
			t.ok(err)
			match := func(got, want int64) bool { return got == -1 || got == want }
			return match(st.Ready, ready) && match(st.InFlight, inFlight) && match(st.Delayed, delayed)
		})
	}
	is(0, 0, 0)
	q.send(numbered(5)...)
	is(5, 0, 0)
	t.ok(q.Send(t.ctx, []storage.Message{{Delay: hold}, {Delay: hold}}))
	is(5, 0, 2)
	ds := q.take(3, hold)
	is(2, 3, 2)
	t.ok(q.Rewrite(t.ctx, ds[0].Receipt, nil, hold))
	is(2, 2, 3)
	_, err := q.Extend(t.ctx, ds[1].Receipt, 0)
	t.ok(err)
	is(3, 1, 3)
	q.remove(ds[2])
	is(3, 0, 3)
	q.take(3, t.short())
	is(3, 0, 3) // their visibility has ended
}

func statsOldest(t *check) {
	q := t.queue()
	oldest := func() time.Duration {
		t.Helper()
		st, err := q.Stats(t.ctx)
		t.ok(err)
		if st.Oldest == -1 {
			t.leaveOut("the engine can't tell the oldest message's age")
		}
		return st.Oldest
	}
	if got := oldest(); got != 0 {
		t.Fatalf("Oldest = %v in an empty queue", got)
	}
	t0 := time.Now()
	t.ok(q.Send(t.ctx, []storage.Message{{Delay: t.short()}}))
	if got := oldest(); got != 0 && time.Since(t0) < t.short()-t.cfg.Precision {
		t.Errorf("Oldest = %v with a delayed message only", got)
	}
	t.past(t0, t.short())
	var got time.Duration
	t.eventually("an oldest message", func() bool { got = oldest(); return got > 0 })
	if most := time.Since(t0) + t.cfg.Precision + 100*time.Millisecond; got < t.short()-t.cfg.Precision || got > most {
		t.Errorf("Oldest = %v; want the age since it was sent, %v to %v", got, t.short(), most)
	}
	q.one(hold)
	t.eventually("no oldest message", func() bool { return oldest() == 0 })
}

func sentAt(t *check) {
	const skew = 15 * time.Minute // between the clocks of two machines
	q := t.queue()
	q.send("body")
	first := q.one(hold)
	if off := time.Since(first.SentAt).Abs(); off > skew {
		t.Errorf("SentAt = %v, %v off", first.SentAt, off)
	}
	_, err := q.Extend(t.ctx, first.Receipt, 0)
	t.ok(err)
	second := q.one(hold)
	t.ok(q.Rewrite(t.ctx, second.Receipt, nil, 0))
	third := q.one(hold)
	for _, d := range []storage.Delivery{second, third} {
		if !d.SentAt.Equal(first.SentAt) {
			t.Errorf("SentAt of delivery %d = %v; want %v as at the first", d.Deliveries, d.SentAt, first.SentAt)
		}
	}
}
