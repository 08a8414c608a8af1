package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

func commitTests() []test {
	return []test{
		{"empty work", commitEmpty},
		{"write and send and delete", commitAll},
		{"every part alone", commitParts},
		{"several queues", commitQueues},
		{"rows go with the write", commitRows},
		{"a failed if-match does nothing at all", commitFailedMatch},
		{"a failed if-absent does nothing at all", commitFailedAbsent},
		{"one creator wins", commitOneCreator},
		{"stale receipts undo nothing and are published", commitStale},
		{"content faults refuse everything first", commitContent},
		{"delayed sends", commitDelayed},
		{"a cancelled context does nothing", commitCancelled},
		{"concurrent commits on one document", func(t *check) { concurrentCommits(t, []*storage.Store{t.s}) }},
	}
}

func send(queue, body string) storage.Send {
	return storage.Send{Queue: queue, Message: storage.Message{Body: []byte(body)}}
}

func (t *check) commit(w storage.Work) storage.Committed {
	t.Helper()
	done, err := t.s.Commit(t.ctx, w)
	t.ok(err)
	return done
}

// claim sends a message, receives it and returns its claim.
func (q *queue) claim() storage.Claim {
	q.t.Helper()
	q.send("to be deleted")
	return storage.Claim{Queue: q.name, Receipt: q.one(hold).Receipt}
}

func commitEmpty(t *check) {
	done := t.commit(storage.Work{})
	if done.ETag != "" || len(done.Stale) != 0 {
		t.Errorf("nothing to do brought about %+v", done)
	}
}

func commitAll(t *check) {
	in, out := t.queue(), t.queue()
	container := t.name("container")
	doc := blobDocs{t.s.Blobs(container), container, "doc"}
	var etag storage.ETag
	for i := range 3 {
		body := fmt.Sprint("version ", i)
		cond := storage.Condition{IfMatch: etag, IfAbsent: etag == ""}
		done := t.commit(storage.Work{
			Write:  &storage.Write{Container: container, Key: "doc", Body: []byte(body), If: cond},
			Send:   []storage.Send{send(out.name, body+" a"), send(out.name, body+" b")},
			Delete: []storage.Claim{in.claim()},
		})
		if len(done.Stale) != 0 {
			t.Errorf("%d stale; want none", len(done.Stale))
		}
		if done.ETag == etag {
			t.Errorf("ETag %q is the old one", done.ETag)
		}
		etag = done.ETag
		docIs(t, doc, body, etag)
		t.same("sent", out.rest(), []string{body + " a", body + " b"})
		in.gone()
	}
	docSet(t, doc, "by put", storage.Condition{IfMatch: etag})
}

func commitParts(t *check) {
	q := t.queue()
	container := t.name("container")
	done := t.commit(storage.Work{Write: &storage.Write{Container: container, Key: "doc", Body: nil}})
	docIs(t, blobDocs{t.s.Blobs(container), container, "doc"}, "", done.ETag)

	done = t.commit(storage.Work{Send: []storage.Send{send(q.name, "")}})
	if done.ETag != "" {
		t.Errorf("an ETag without a write: %q", done.ETag)
	}
	d := q.one(hold)
	if len(d.Body) != 0 || d.Deliveries != 1 {
		t.Errorf("received %q, delivery %d; want an empty body, delivery 1", d.Body, d.Deliveries)
	}
	done = t.commit(storage.Work{Delete: []storage.Claim{{Queue: q.name, Receipt: d.Receipt}}})
	if done.ETag != "" || len(done.Stale) != 0 {
		t.Errorf("a deletion brought about %+v", done)
	}
	q.gone()
}

func commitQueues(t *check) {
	var outs, ins []*queue
	var w storage.Work
	for i := range 3 {
		outs, ins = append(outs, t.queue()), append(ins, t.queue())
		w.Delete = append(w.Delete, ins[i].claim())
	}
	for i := range 9 { // not grouped by queue
		w.Send = append(w.Send, send(outs[i%3].name, fmt.Sprint(i)))
	}
	w.Delete = append(w.Delete, ins[0].claim(), outs[1].claim())
	t.commit(w)
	for i := range 3 {
		t.same("sent", outs[i].rest(), []string{fmt.Sprint(i), fmt.Sprint(i + 3), fmt.Sprint(i + 6)})
		ins[i].gone()
	}
}

// commitRows writes more rows than one batch holds, writes some of them again, and then commits with a write that
// is refused. On an engine with atomic commits that last commit leaves no rows.
func commitRows(t *check) {
	container, table, in := t.name("container"), t.name("table"), t.queue()
	count := func() (n int) {
		for row, err := range t.s.Table(table).Query(t.ctx, "p", storage.RowRange{}) {
			t.ok(err)
			if want := "data of " + row.Key; string(row.Data) != want {
				t.Errorf("row %s holds %q; want %q", row.Key, row.Data, want)
			}
			n++
		}
		return n
	}
	work := func(from, to int, cond storage.Condition) storage.Work {
		w := storage.Work{
			Rows:   &storage.Rows{Table: table, Partition: "p"},
			Write:  &storage.Write{Container: container, Key: "doc", Body: []byte("body"), If: cond},
			Delete: []storage.Claim{in.claim()},
		}
		for i := from; i < to; i++ {
			key := fmt.Sprintf("%03d", i)
			w.Rows.Puts = append(w.Rows.Puts, storage.RowPut{Key: key, Data: []byte("data of " + key)})
		}
		return w
	}
	const n = storage.MaxBatchRows + 20
	t.commit(work(0, n, storage.Condition{IfAbsent: true}))
	t.equal("rows", []string{fmt.Sprint(count())}, []string{fmt.Sprint(n)})
	t.commit(work(n-10, n+10, storage.Condition{}))
	t.equal("rows", []string{fmt.Sprint(count())}, []string{fmt.Sprint(n + 10)})
	in.gone()

	_, err := t.s.Commit(t.ctx, work(n, n+20, storage.Condition{IfAbsent: true}))
	t.fails(err, storage.ErrExists, container)
	if t.s.Atomic() {
		t.equal("rows after a refusal", []string{fmt.Sprint(count())}, []string{fmt.Sprint(n + 10)})
	}
	t.commit(storage.Work{Rows: &storage.Rows{Table: table, Partition: "q", Puts: []storage.RowPut{{Key: "k", Data: []byte("v")}}}})
	row, err := t.s.Table(table).Get(t.ctx, "q", "k")
	t.ok(err)
	t.equal("a row alone", []string{string(row.Data)}, []string{"v"})
}

// commitNothing fails the test if a refused unit of work has had an effect.
func commitNothing(t *check, w storage.Work, in, out *queue) {
	t.Helper()
	out.gone()
	in.none()
	var rs []storage.Receipt
	for _, c := range w.Delete {
		rs = append(rs, c.Receipt)
	}
	t.ok(in.Delete(t.ctx, rs)) // all still alive
}

func commitFailedMatch(t *check) {
	container := t.name("container")
	doc := blobDocs{t.s.Blobs(container), container, "doc"}
	old := docSet(t, doc, "one", storage.Condition{})
	etag := docSet(t, doc, "two", storage.Condition{})
	for _, x := range []struct {
		key  string
		etag storage.ETag
	}{{"doc", old}, {"doc", "*"}, {"missing", etag}} {
		in, out := t.queue(), t.queue()
		w := storage.Work{
			Write:  &storage.Write{Container: container, Key: x.key, Body: []byte(secret), If: storage.Condition{IfMatch: x.etag}},
			Send:   []storage.Send{send(out.name, "event")},
			Delete: []storage.Claim{in.claim(), in.claim()},
		}
		_, err := t.s.Commit(t.ctx, w)
		t.fails(err, storage.ErrPrecondition, container)
		commitNothing(t, w, in, out)
	}
	docIs(t, doc, "two", etag)
	_, err := doc.Get(t.ctx, "missing", "")
	t.fails(err, storage.ErrNotFound, container)
}

func commitFailedAbsent(t *check) {
	container := t.name("container")
	doc := blobDocs{t.s.Blobs(container), container, "doc"}
	etag := docSet(t, doc, "one", storage.Condition{})
	in, out := t.queue(), t.queue()
	w := storage.Work{
		Write:  &storage.Write{Container: container, Key: "doc", Body: []byte(secret), If: storage.Condition{IfAbsent: true}},
		Send:   []storage.Send{send(out.name, "event")},
		Delete: []storage.Claim{in.claim()},
	}
	_, err := t.s.Commit(t.ctx, w)
	t.fails(err, storage.ErrExists, container)
	commitNothing(t, w, in, out)
	docIs(t, doc, "one", etag)
}

func commitOneCreator(t *check) {
	out := t.queue()
	container := t.name("container")
	docRace(t, 16, func(i int) error {
		_, err := t.s.Commit(t.ctx, storage.Work{
			Write: &storage.Write{Container: container, Key: "doc", Body: fmt.Append(nil, i), If: storage.Condition{IfAbsent: true}},
			Send:  []storage.Send{send(out.name, fmt.Sprint(i))},
		})
		return err
	})
	blob, err := t.s.Blobs(container).Get(t.ctx, "doc", "")
	t.ok(err)
	t.equal("sent", out.rest(), []string{string(blob.Body)})
}

func commitStale(t *check) {
	in, other, out := t.queue(), t.queue(), t.queue()
	container := t.name("container")
	gone, live, moved, foreign := in.claim(), in.claim(), in.claim(), other.claim()
	t.ok(in.Delete(t.ctx, []storage.Receipt{gone.Receipt}))
	newer, err := in.Extend(t.ctx, moved.Receipt, hold)
	t.ok(err)
	_, err = other.Extend(t.ctx, foreign.Receipt, 0)
	t.ok(err)
	garbage := storage.Claim{Queue: t.name("queue"), Receipt: "garbage"}
	done := t.commit(storage.Work{
		Write:  &storage.Write{Container: container, Key: "doc", Body: []byte("body"), If: storage.Condition{IfAbsent: true}},
		Send:   []storage.Send{send(out.name, "event")},
		Delete: []storage.Claim{gone, live, moved, foreign, garbage},
	})
	docIs(t, blobDocs{t.s.Blobs(container), container, "doc"}, "body", done.ETag)
	t.equal("sent", out.rest(), []string{"event"})
	order := func(a, b storage.Claim) int {
		return strings.Compare(a.Queue+" "+string(a.Receipt), b.Queue+" "+string(b.Receipt))
	}
	want := []storage.Claim{gone, moved, foreign, garbage}
	slices.SortFunc(want, order)
	slices.SortFunc(done.Stale, order)
	if !slices.Equal(done.Stale, want) {
		t.Errorf("Committed.Stale has %d claims %q; want %d %q", len(done.Stale), done.Stale, len(want), want)
	}
	in.dead(live.Receipt)
	in.none()
	t.ok(in.Delete(t.ctx, []storage.Receipt{newer})) // the message's new holder keeps it
	t.equal("handed back", other.rest(), []string{"to be deleted"})
}

func commitContent(t *check) {
	p := t.s.Props()
	container := t.name("container")
	write := func(f func(w *storage.Write)) func(*storage.Work) {
		return func(w *storage.Work) { f(w.Write) }
	}
	add := func(s storage.Send) func(*storage.Work) {
		return func(w *storage.Work) { w.Send = append(w.Send, s) }
	}
	rows := func(r storage.Rows) func(*storage.Work) {
		return func(w *storage.Work) { w.Rows = &r }
	}
	faults := map[string]struct {
		spoil func(*storage.Work)
		kind  error
	}{
		"bad container":   {write(func(w *storage.Write) { w.Container = "Bad_Name" }), storage.ErrInvalid},
		"empty key":       {write(func(w *storage.Write) { w.Key = "" }), storage.ErrInvalid},
		"bad key":         {write(func(w *storage.Write) { w.Key = "a\x00" }), storage.ErrInvalid},
		"both conditions": {write(func(w *storage.Write) { w.If = storage.Condition{IfAbsent: true, IfMatch: "x"} }), storage.ErrInvalid},
		"bad table":       {rows(storage.Rows{Table: "Bad_Name", Partition: "p"}), storage.ErrInvalid},
		"bad partition":   {rows(storage.Rows{Table: t.name("table")}), storage.ErrInvalid},
		"bad row":         {rows(storage.Rows{Table: t.name("table"), Partition: "p", Puts: []storage.RowPut{{Key: "a\x00"}}}), storage.ErrInvalid},
		"a row twice":     {rows(storage.Rows{Table: t.name("table"), Partition: "p", Puts: []storage.RowPut{{Key: "a"}, {Key: "a"}}}), storage.ErrInvalid},
		"large row":       {rows(storage.Rows{Table: t.name("table"), Partition: "p", Puts: []storage.RowPut{{Key: "a", Data: make([]byte, p.MaxRow+1)}}}), storage.ErrTooLarge},
		"bad queue":       {add(send("Bad_Name", "x")), storage.ErrInvalid},
		"large message":   {add(send(t.name("queue"), string(make([]byte, p.MaxMessage+1)))), storage.ErrTooLarge},
		"negative delay":  {add(storage.Send{Queue: t.name("queue"), Message: storage.Message{Delay: -1}}), storage.ErrInvalid},
		"long delay":      {add(storage.Send{Queue: t.name("queue"), Message: storage.Message{Delay: storage.MaxDelay + 1}}), storage.ErrInvalid},
		"bad claim": {func(w *storage.Work) {
			w.Delete = append(w.Delete, storage.Claim{Queue: "Bad_Name", Receipt: "x"})
		}, storage.ErrInvalid},
	}
	if p.MaxBlob <= 1<<30 {
		faults["large blob"] = struct {
			spoil func(*storage.Work)
			kind  error
		}{write(func(w *storage.Write) { w.Body = make([]byte, p.MaxBlob+1) }), storage.ErrTooLarge}
	}
	for name, x := range faults {
		in, out := t.queue(), t.queue()
		w := storage.Work{
			Write:  &storage.Write{Container: container, Key: "doc", Body: []byte(secret)},
			Send:   []storage.Send{send(out.name, secret)},
			Delete: []storage.Claim{in.claim()},
		}
		good := w.Delete
		x.spoil(&w)
		if _, err := t.s.Commit(t.ctx, w); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.fails(err, x.kind, "")
		}
		commitNothing(t, storage.Work{Delete: good}, in, out)
		_, err := t.s.Blobs(container).Get(t.ctx, "doc", "")
		t.fails(err, storage.ErrNotFound, container)
	}
}

func commitDelayed(t *check) {
	out := t.queue()
	far := send(out.name, "far")
	far.Message.Delay = hold
	t.commit(storage.Work{Send: []storage.Send{far, send(out.name, "now")}})
	t.equal("now", bodies(out.take(1, hold)), []string{"now"})
	out.none()
}

func commitCancelled(t *check) {
	in, out := t.queue(), t.queue()
	container := t.name("container")
	w := storage.Work{
		Write:  &storage.Write{Container: container, Key: "doc", Body: []byte("body")},
		Send:   []storage.Send{send(out.name, "event")},
		Delete: []storage.Claim{in.claim()},
	}
	if _, err := t.s.Commit(t.cancelled(), w); !errors.Is(err, errCause) {
		t.Errorf("got error %v; want one that matches context.Cause", err)
	}
	commitNothing(t, w, in, out)
	_, err := t.s.Blobs(container).Get(t.ctx, "doc", "")
	t.fails(err, storage.ErrNotFound, container)
}

// concurrentCommits lets sixteen workers, spread over views of one store, add to one document. Each commit sends
// one message and deletes its command.
func concurrentCommits(t *check, views []*storage.Store) {
	const workers, each = 16, 3
	in, out := t.queueIn(views[0], t.name("queue")), t.queueIn(views[0], t.name("queue"))
	container := t.name("container")
	in.send(numbered(workers * each)...)
	commands := in.take(workers*each, hold)
	var mu sync.Mutex
	var sent []string
	crowd(workers, func(w int) {
		s := views[w%len(views)]
		for won := 0; won < each; {
			d := commands[w*each+won]
			blob, err := s.Blobs(container).Get(t.ctx, "doc", "")
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("get: %v", err)
				return
			}
			id := fmt.Sprintf("%d after %d", w, len(blob.Body))
			done, err := s.Commit(t.ctx, storage.Work{
				Write: &storage.Write{Container: container, Key: "doc", Body: append(blob.Body, 'x'),
					If: storage.Condition{IfMatch: blob.ETag, IfAbsent: blob.ETag == ""}},
				Send:   []storage.Send{send(out.name, id)},
				Delete: []storage.Claim{{Queue: in.name, Receipt: d.Receipt}},
			})
			if storage.LostRace(err) {
				continue
			}
			if err != nil || len(done.Stale) > 0 {
				t.Errorf("commit: %v, %d stale", err, len(done.Stale))
				return
			}
			won++
			mu.Lock()
			sent = append(sent, id)
			mu.Unlock()
		}
	})
	blob, err := views[0].Blobs(container).Get(t.ctx, "doc", "")
	t.ok(err)
	if len(blob.Body) != workers*each {
		t.Errorf("the document counts %d; want %d", len(blob.Body), workers*each)
	}
	t.same("sent", out.rest(), sent)
	in.gone()
}
