package storagetest

import (
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func twoStoresTests() []test {
	return []test{
		{"see each other's writes", pairSees},
		{"compete for messages", pairCompetes},
		{"share receipts", pairReceipts},
		{"one winner under one etag", pairRace},
		{"count one document", pairCount},
		{"share no etags", pairETags},
		{"concurrent commits on one document", pairCommits},
		{"one closes and the other stays", pairClose},
	}
}

// pair opens one place twice.
func (t *check) pair() (a, b *storage.Store) {
	t.Helper()
	a = t.own()
	return a, t.again(a)
}

func pairSees(t *check) {
	a, b := t.pair()
	for i := range 3 {
		body := fmt.Sprint("round ", i)
		t.queueIn(a, "queue").send(body)
		d := t.queueIn(b, "queue").one(hold)
		t.bytesEqual("body", d.Body, []byte(body))
		t.queueIn(b, "queue").remove(d)
		t.queueIn(a, "queue").gone()

		etag := docSet(t, blobDocs{a.Blobs("container"), "container", "key"}, body, storage.Condition{})
		docIs(t, blobDocs{b.Blobs("container"), "container", "key"}, body, etag)
		etag = docSet(t, rowDocs{b.Table("table"), "table", "p", "key"}, body, storage.Condition{})
		docIs(t, rowDocs{a.Table("table"), "table", "p", "key"}, body, etag)
		a, b = b, a
	}
}

func pairCompetes(t *check) {
	a, b := t.pair()
	competing(t, []*queue{t.queueIn(a, "queue"), t.queueIn(b, "queue")})
}

func pairReceipts(t *check) {
	a, b := t.pair()
	qa, qb := t.queueIn(a, "queue"), t.queueIn(b, "queue")
	qa.send("body")
	d := qa.one(hold)
	qb.none()
	r, err := qb.Extend(t.ctx, d.Receipt, 0)
	t.ok(err)
	qa.dead(d.Receipt)
	d = qb.one(hold)
	qa.dead(r)
	qa.remove(d)
	qb.dead(d.Receipt)
	qb.gone()
}

func pairRace(t *check) {
	a, b := t.pair()
	views := []*storage.Store{a, b}
	for _, open := range []func(s *storage.Store) documents{
		func(s *storage.Store) documents { return blobDocs{s.Blobs("container"), "container", "key"} },
		func(s *storage.Store) documents { return rowDocs{s.Table("table"), "table", "p", "key"} },
	} {
		etag := docSet(t, open(a), "start", storage.Condition{})
		docRace(t, 32, func(i int) error {
			_, err := open(views[i%2]).put(t, fmt.Append(nil, i), storage.Condition{IfMatch: etag})
			return err
		})
		t.ok(open(a).remove(t, storage.Condition{}))
		docRace(t, 32, func(i int) error {
			_, err := open(views[i%2]).put(t, fmt.Append(nil, i), storage.Condition{IfAbsent: true})
			return err
		})
	}
}

func pairCount(t *check) {
	a, b := t.pair()
	views := []blobDocs{{a.Blobs("container"), "container", "key"}, {b.Blobs("container"), "container", "key"}}
	docSet(t, views[0], "", storage.Condition{})
	crowd(8, func(i int) {
		d := views[i%2]
		for won := 0; won < 5; {
			body, etag, err := d.get(t)
			if err == nil {
				_, err = d.put(t, append(body, 'x'), storage.Condition{IfMatch: etag})
			}
			switch {
			case err == nil:
				won++
			case !storage.LostRace(err):
				t.Errorf("put: %v", err)
				return
			}
		}
	})
	body, _, err := views[1].get(t)
	t.ok(err)
	if len(body) != 40 {
		t.Errorf("counted %d; want 40", len(body))
	}
}

func pairETags(t *check) {
	a, b := t.pair()
	seen := map[storage.ETag]bool{}
	for range 4 {
		for _, s := range []*storage.Store{a, b} {
			d := blobDocs{s.Blobs("container"), "container", "key"}
			etag := docSet(t, d, "the same", storage.Condition{})
			if seen[etag] {
				t.Fatalf("ETag %q was used before", etag)
			}
			seen[etag] = true
		}
		t.ok(a.Blobs("container").Delete(t.ctx, "key", storage.Condition{}))
	}
}

func pairCommits(t *check) {
	a, b := t.pair()
	concurrentCommits(t, []*storage.Store{a, b})
}

func pairClose(t *check) {
	a, b := t.pair()
	t.queueIn(a, "queue").send("body")
	t.ok(a.Close())
	t.equal("sent", bodies(t.queueIn(b, "queue").take(1, hold)), []string{"body"})
	t.queueIn(b, "queue").send("more")
	t.equal("sent", bodies(t.queueIn(t.again(b), "queue").take(1, hold)), []string{"more"})
}

func durableTests() []test {
	return []test{
		{"everything is found again", foundAgain},
		{"a deletion stays", deletionStays},
		{"etags are not used again", etagsStayUsed},
	}
}

// after closes a store and opens its place again.
func (t *check) after(s *storage.Store) *storage.Store {
	t.Helper()
	if !t.cfg.Durable {
		t.leaveOut("Config.Durable is not set")
	}
	t.ok(s.Close())
	return t.again(s)
}

func foundAgain(t *check) {
	s := t.own()
	q := t.queueIn(s, "queue")
	q.send("held")
	held := q.one(hold)
	q.send("short")
	t0 := time.Now()
	q.one(t.short())
	t.ok(q.Send(t.ctx, []storage.Message{{Body: []byte("delayed"), Delay: hold}, {Body: []byte("\x00\xff")}}))
	blob := docSet(t, blobDocs{s.Blobs("container"), "container", "key"}, "blob\x00", storage.Condition{})
	row := docSet(t, rowDocs{s.Table("table"), "table", "p", "key"}, "row\x00", storage.Condition{})
	done, err := s.Commit(t.ctx, storage.Work{
		Write: &storage.Write{Container: "container", Key: "committed", Body: []byte("committed")},
		Send:  []storage.Send{send("other", "event")},
	})
	t.ok(err)
	t.ok(s.Table("table").PutRows(t.ctx, "p", []storage.RowPut{{Key: "batch", Data: []byte("batch")}}))

	s = t.after(s)
	q = t.queueIn(s, "queue")
	t.past(t0, t.short())
	ds := q.take(2, hold)
	t.same("ready", bodies(ds), []string{"short", "\x00\xff"})
	for _, d := range ds {
		if want := map[string]int{"short": 2}[string(d.Body)]; d.Deliveries != max(want, 1) {
			t.Errorf("%q: Deliveries = %d; want %d", d.Body, d.Deliveries, max(want, 1))
		}
	}
	q.none() // held and delayed messages are still hidden
	t.ok(q.Delete(t.ctx, []storage.Receipt{held.Receipt}))
	docIs(t, blobDocs{s.Blobs("container"), "container", "key"}, "blob\x00", blob)
	docIs(t, blobDocs{s.Blobs("container"), "container", "committed"}, "committed", done.ETag)
	docIs(t, rowDocs{s.Table("table"), "table", "p", "key"}, "row\x00", row)
	t.equal("rows", rowKeys(t, s.Table("table"), "p", storage.RowRange{}), []string{"batch", "key"})
	t.equal("events", t.queueIn(s, "other").rest(), []string{"event"})
}

func deletionStays(t *check) {
	s := t.own()
	q := t.queueIn(s, "queue")
	q.send("one", "two")
	ds := q.take(2, hold)
	q.remove(ds[0])
	_, err := s.Commit(t.ctx, storage.Work{Delete: []storage.Claim{{Queue: "queue", Receipt: ds[1].Receipt}}})
	t.ok(err)
	docSet(t, blobDocs{s.Blobs("container"), "container", "key"}, "body", storage.Condition{})
	t.ok(s.Blobs("container").Delete(t.ctx, "key", storage.Condition{}))
	docSet(t, rowDocs{s.Table("table"), "table", "p", "key"}, "body", storage.Condition{})
	t.ok(s.Table("table").Delete(t.ctx, "p", "key", storage.Condition{}))

	s = t.after(s)
	q = t.queueIn(s, "queue")
	q.gone()
	q.dead(ds[0].Receipt)
	_, err = s.Blobs("container").Get(t.ctx, "key", "")
	t.fails(err, storage.ErrNotFound, "container")
	_, err = s.Table("table").Get(t.ctx, "p", "key")
	t.fails(err, storage.ErrNotFound, "table")
}

func etagsStayUsed(t *check) {
	s := t.own()
	seen := map[string]bool{}
	for range 3 {
		for _, d := range []documents{blobDocs{s.Blobs("container"), "container", "key"}, rowDocs{s.Table("table"), "table", "p", "key"}} {
			etag := docSet(t, d, "the same", storage.Condition{})
			state := d.where() + " " + string(etag)
			if seen[state] {
				t.Errorf("ETag %q was used before the store was closed", etag)
			}
			seen[state] = true
			t.ok(d.remove(t, storage.Condition{}))
		}
		s = t.after(s)
	}
}
