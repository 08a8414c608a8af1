package storagetest

import (
	"bytes"
	"slices"

	"github.com/millrace-go/millrace/storage"
)

func aliasTests() []test {
	return []test{
		{"what is sent may be overwritten", aliasSend},
		{"what is received may be overwritten", aliasReceive},
		{"bodies received together do not touch", aliasNeighbours},
		{"what is put may be overwritten", aliasPut},
		{"what is got may be overwritten", aliasGet},
		{"arguments are not changed", aliasArguments},
	}
}

// scribble overwrites a slice to its capacity.
func scribble(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 'X'
	}
}

func aliasSend(t *check) {
	q := t.queue()
	messages := []storage.Message{{Body: []byte("one")}, {Body: []byte("two")}}
	t.ok(q.Send(t.ctx, messages))
	scribble(messages[0].Body)
	scribble(messages[1].Body)
	messages[0], messages[1] = storage.Message{}, storage.Message{}
	ds := q.take(2, hold)
	t.same("bodies", bodies(ds), []string{"one", "two"})

	body := []byte("rewritten")
	t.ok(q.Rewrite(t.ctx, ds[0].Receipt, body, 0))
	scribble(body)
	t.bytesEqual("body", q.one(hold).Body, []byte("rewritten"))

	body = []byte("committed")
	send := []storage.Send{{Queue: q.name, Message: storage.Message{Body: body}}}
	_, err := t.s.Commit(t.ctx, storage.Work{Send: send})
	t.ok(err)
	scribble(body)
	send[0] = storage.Send{}
	t.bytesEqual("body", q.one(hold).Body, []byte("committed"))
}

func aliasReceive(t *check) {
	q := t.queue()
	q.send("body")
	for range 3 {
		d := q.one(hold)
		t.bytesEqual("body", d.Body, []byte("body"))
		scribble(d.Body)
		_, err := q.Extend(t.ctx, d.Receipt, 0)
		t.ok(err)
	}
}

func aliasNeighbours(t *check) {
	q := t.queue()
	want := numbered(10)
	for i := range want {
		want[i] = "body " + want[i]
	}
	q.send(want...)
	var got [][]byte
	for _, d := range q.take(10, hold) {
		got = append(got, d.Body)
	}
	for _, b := range got {
		_ = append(b, "XXXXXXXXXXXXXXXX"...)
	}
	var texts []string
	for _, b := range got {
		texts = append(texts, string(b))
	}
	t.same("bodies", texts, want)

	tab := t.s.Table(t.name("table"))
	t.ok(tab.PutRows(t.ctx, "p", []storage.RowPut{{Key: "a", Data: []byte("row a")}, {Key: "b", Data: []byte("row b")}, {Key: "c", Data: []byte("row c")}}))
	rows, err := collect(t, tab.Query(t.ctx, "p", storage.RowRange{}))
	t.ok(err)
	texts = nil
	for _, r := range rows {
		_ = append(r.Data, "XXXXXXXXXXXXXXXX"...)
	}
	for _, r := range rows {
		texts = append(texts, string(r.Data))
	}
	t.equal("rows", texts, []string{"row a", "row b", "row c"})
}

func aliasPut(t *check) {
	container, table := t.name("container"), t.name("table")
	b, tab := t.s.Blobs(container), t.s.Table(table)
	body := []byte("body")
	etag, err := b.Put(t.ctx, "put", body, storage.Condition{})
	t.ok(err)
	scribble(body)
	got, err := b.Get(t.ctx, "put", "")
	t.ok(err)
	t.bytesEqual("blob", got.Body, []byte("body"))

	body = []byte("newer")
	_, err = b.Put(t.ctx, "put", body, storage.Condition{IfMatch: etag})
	t.ok(err)
	scribble(body)
	got, err = b.Get(t.ctx, "put", "")
	t.ok(err)
	t.bytesEqual("blob", got.Body, []byte("newer"))

	body = []byte("body")
	data := []byte("body")
	_, err = t.s.Commit(t.ctx, storage.Work{
		Rows:  &storage.Rows{Table: table, Partition: "p", Puts: []storage.RowPut{{Key: "commit", Data: data}}},
		Write: &storage.Write{Container: container, Key: "commit", Body: body},
	})
	t.ok(err)
	scribble(body)
	scribble(data)
	got, err = b.Get(t.ctx, "commit", "")
	t.ok(err)
	t.bytesEqual("blob committed", got.Body, []byte("body"))

	body = []byte("body")
	_, err = tab.Put(t.ctx, "p", "put", body, storage.Condition{})
	t.ok(err)
	scribble(body)
	body = []byte("body")
	rows := []storage.RowPut{{Key: "batch", Data: body}}
	t.ok(tab.PutRows(t.ctx, "p", rows))
	scribble(body)
	rows[0] = storage.RowPut{}
	for _, k := range []string{"put", "batch", "commit"} {
		row, err := tab.Get(t.ctx, "p", k)
		t.ok(err)
		t.bytesEqual("row", row.Data, []byte("body"))
	}
}

func aliasGet(t *check) {
	b, tab := t.s.Blobs(t.name("container")), t.s.Table(t.name("table"))
	_, err := b.Put(t.ctx, "key", []byte("body"), storage.Condition{})
	t.ok(err)
	_, err = tab.Put(t.ctx, "p", "key", []byte("body"), storage.Condition{})
	t.ok(err)
	for range 2 {
		got, err := b.Get(t.ctx, "key", "")
		t.ok(err)
		t.bytesEqual("blob", got.Body, []byte("body"))
		scribble(got.Body)
		row, err := tab.Get(t.ctx, "p", "key")
		t.ok(err)
		t.bytesEqual("row", row.Data, []byte("body"))
		scribble(row.Data)
		rows, err := collect(t, tab.Query(t.ctx, "p", storage.RowRange{}))
		t.ok(err)
		t.bytesEqual("row queried", rows[0].Data, []byte("body"))
		scribble(rows[0].Data)
	}
}

func aliasArguments(t *check) {
	q := t.queue()
	bs := [][]byte{[]byte("c-body"), []byte("a-body"), []byte("b-body")}
	messages := []storage.Message{{Body: bs[0]}, {Body: bs[1]}, {Body: bs[2]}}
	t.ok(q.Send(t.ctx, messages))
	for i, want := range []string{"c-body", "a-body", "b-body"} {
		if string(bs[i]) != want || !bytes.Equal(messages[i].Body, bs[i]) {
			t.Errorf("Send changed its argument: message %d is %q; want %q", i, messages[i].Body, want)
		}
	}
	rows := []storage.RowPut{{Key: "c", Data: bs[0]}, {Key: "a", Data: bs[1]}, {Key: "b", Data: bs[2]}}
	t.ok(t.s.Table(t.name("table")).PutRows(t.ctx, "p", rows))
	if rows[0].Key != "c" || rows[1].Key != "a" || rows[2].Key != "b" || string(rows[0].Data) != "c-body" {
		t.Errorf("PutRows changed its argument: %q", rows)
	}
	rs := receipts(q.take(3, hold))
	rs = append(rs, rs[0], "zzz", "aaa")
	slices.Reverse(rs)
	keep := slices.Clone(rs)
	if err := q.Delete(t.ctx, rs); err == nil {
		t.Error("garbage receipts deleted something")
	}
	if !slices.Equal(rs, keep) {
		t.Errorf("Delete changed its argument: %q; want %q", rs, keep)
	}
}
