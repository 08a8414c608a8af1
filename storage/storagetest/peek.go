package storagetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func peekTests() []test {
	return []test{
		{"what waits is shown", peekShows},
		{"looking is no delivery", peekDelivers},
		{"a message in flight is not shown", peekInFlight},
		{"a rewritten message is shown as it is", peekRewritten},
		{"ready messages come before delayed ones", peekOrder},
		{"what waits can be deleted", peekReceipts},
		{"over many pages", peekPages},
		{"broken off early", peekBreak},
		{"cancelled in the middle", peekCancelled},
		{"a second store shows it too", peekByAnother},
	}
}

// shown returns an unused queue of a store that shows what waits, or leaves the test out.
func (t *check) shown() *queue {
	t.Helper()
	q := t.queue()
	if t.s.Driver().Peeker() == nil {
		if t.cfg.Peeks {
			t.Fatal("Config.Peeks is set, but the store shows nothing that waits")
		}
		if got := lastError(q.Peek(t.ctx)); !errors.Is(got, storage.ErrUnsupported) {
			t.Errorf("without a Peeker: got %v, want %v", got, storage.ErrUnsupported)
		}
		t.leaveOut("nobody sees what waits in a queue")
	}
	return q
}

// peek reads what waits. It fails the test unless these are the bodies, in any order.
func (q *queue) peek(want ...string) []storage.Peeked {
	q.t.Helper()
	got, err := collect(q.t, q.Peek(q.t.ctx))
	q.t.ok(err)
	var texts []string
	for _, m := range got {
		texts = append(texts, string(m.Body))
	}
	q.t.same("shown of "+q.name, texts, want)
	return got
}

func peekShows(t *check) {
	q, other := t.shown(), t.queue()
	q.peek()
	q.send("one", "two", "", "\x00\xff")
	other.send("other")
	for _, m := range q.peek("one", "two", "", "\x00\xff") {
		if m.Deliveries != 0 || !m.ReadyAt.IsZero() || time.Since(m.SentAt).Abs() > 15*time.Minute {
			t.Errorf("shown: %+v; want no deliveries, that it is ready, and when it was sent", m)
		}
		scribble(m.Body)
	}
	q.peek("one", "two", "", "\x00\xff")
	t.fails(lastError(t.s.Queue("no name").Peek(t.ctx)), storage.ErrInvalid, "no name")
}

func peekDelivers(t *check) {
	q := t.shown()
	q.send("body")
	for range 3 {
		q.peek("body")
	}
	d := q.one(hold)
	if d.Deliveries != 1 {
		t.Errorf("Deliveries = %d after it was shown; want 1", d.Deliveries)
	}
	q.peek()
	q.remove(d)
	q.peek()
	q.gone()
}

func peekInFlight(t *check) {
	q := t.shown()
	q.send("body")
	t0 := time.Now()
	q.one(t.short())
	got, err := collect(t, q.Peek(t.ctx))
	t.ok(err)
	if len(got) > 0 && time.Since(t0) < t.short() {
		t.Errorf("shown while it was in flight: %d messages", len(got))
	}
	t.past(t0, t.short())
	t.eventually("what is held no longer", func() bool {
		got, err := collect(t, q.Peek(t.ctx))
		t.ok(err)
		return len(got) == 1 && string(got[0].Body) == "body" && got[0].Deliveries == 1 && got[0].ReadyAt.IsZero()
	})
	d := q.one(hold)
	q.peek()
	_, err = q.Extend(t.ctx, d.Receipt, 0)
	t.ok(err)
	q.peek("body")
}

func peekRewritten(t *check) {
	q := t.shown()
	q.send("old")
	t.ok(q.Rewrite(t.ctx, q.one(hold).Receipt, []byte("new"), 0))
	if m := q.peek("new")[0]; m.Deliveries != 1 {
		t.Errorf("Deliveries = %d; want 1", m.Deliveries)
	}
}

// peekOrder asks nothing about delayed messages of a store that shows ready ones alone.
func peekOrder(t *check) {
	q := t.shown()
	for _, m := range []storage.Message{{Body: []byte("last"), Delay: 2 * hold}, {Body: []byte("later"), Delay: hold}, {Body: []byte("ready")}} {
		t.ok(q.Send(t.ctx, []storage.Message{m}))
	}
	t.eventually("the ready message", func() bool { return lastError(q.Peek(t.ctx)) == nil && len(q.read()) > 0 })
	want := []string{"ready", "later", "last"}
	got := q.read()
	if !t.cfg.PeeksDelayed { // delayed ones may be left out
		want = want[:max(1, min(len(got), len(want)))]
	}
	var texts []string
	for i, m := range got {
		texts = append(texts, string(m.Body))
		due := []time.Duration{0, hold, 2 * hold}[i]
		if m.ReadyAt.IsZero() != (i == 0) || i > 0 && (time.Until(m.ReadyAt) > due || time.Until(m.ReadyAt) < due-15*time.Minute) {
			t.Errorf("%s is ready at %v; want some %v from now", m.Body, m.ReadyAt, due)
		}
	}
	if !slices.Equal(texts, want) {
		t.Errorf("shown: %q; want %q", texts, want)
	}
}

// peekReceipts deletes what waits, ready and delayed, by the receipts that are shown. A message that a consumer has
// taken meanwhile stays.
func peekReceipts(t *check) {
	q := t.shown()
	q.send("taken", "ready")
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("delayed"), Delay: hold}}))
	shown := map[string]storage.Receipt{}
	for _, m := range q.read() {
		shown[string(m.Body)] = m.Receipt
	}
	if shown["ready"] == "" {
		if t.cfg.PeeksReceipts {
			t.Fatal("Config.PeeksReceipts is set, but what waits is shown without a receipt")
		}
		t.leaveOut("what waits is shown without receipts")
	}
	t.ok(q.Delete(t.ctx, []storage.Receipt{shown["ready"]}))
	t.fails(q.Delete(t.ctx, []storage.Receipt{shown["ready"]}), storage.ErrReceiptStale, "deleted before")
	d := q.one(hold)
	if string(d.Body) != "taken" {
		t.Errorf("received %q; want what was not deleted", d.Body)
	}
	t.fails(q.Delete(t.ctx, []storage.Receipt{shown["taken"]}), storage.ErrReceiptStale, "a consumer has it")
	if r := shown["delayed"]; r != "" {
		t.ok(q.Delete(t.ctx, []storage.Receipt{r}))
		q.peek()
	}
	q.remove(d)
	q.gone()
}

// read reads what waits.
func (q *queue) read() []storage.Peeked {
	q.t.Helper()
	got, err := collect(q.t, q.Peek(q.t.ctx))
	q.t.ok(err)
	return got
}

func peekPages(t *check) {
	q := t.shown()
	n := max(t.many(200), 100)
	want := numbered(n)
	q.send(want...)
	if t.cfg.PeeksDelayed { // it shows all
		q.peek(want...)
		return
	}
	seen := map[string]bool{}
	for _, m := range q.read() {
		if !slices.Contains(want, string(m.Body)) || seen[string(m.Body)] {
			t.Errorf("shown: %q, which is another message, or twice", m.Body)
		}
		seen[string(m.Body)] = true
	}
	if len(seen) == 0 {
		t.Errorf("nothing is shown of %d messages", n)
	}
}

func peekBreak(t *check) {
	q := t.shown()
	q.send(numbered(50)...)
	for _, err := range q.Peek(t.ctx) {
		t.ok(err)
		break
	}
	for _, err := range q.Peek(t.ctx) {
		t.ok(err)
		_, err := q.Stats(t.ctx) // the loop holds nothing that another call needs
		t.ok(err)
	}
}

func peekCancelled(t *check) {
	q := t.shown()
	q.send("one", "two")
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	t.fails(lastError(q.Peek(ctx)), context.Canceled, q.name)
}

func peekByAnother(t *check) {
	t.shown()
	s := t.own()
	q := t.queueIn(s, t.name("queue"))
	q.send("body")
	t.queueIn(t.again(s), q.name).peek("body")
}
