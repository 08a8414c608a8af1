package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

type rowDocs struct {
	*storage.Table
	table, partition, key string
}

func (d rowDocs) get(t *check) ([]byte, storage.ETag, error) {
	r, err := d.Get(t.ctx, d.partition, d.key)
	if err == nil && r.Key != d.key {
		t.Errorf("Get of row %q returned row %q", d.key, r.Key)
	}
	return r.Data, r.ETag, err
}
func (d rowDocs) put(t *check, body []byte, cond storage.Condition) (storage.ETag, error) {
	return d.Put(t.ctx, d.partition, d.key, body, cond)
}
func (d rowDocs) remove(t *check, cond storage.Condition) error {
	return d.Delete(t.ctx, d.partition, d.key, cond)
}
func (d rowDocs) limit(t *check) int { return t.s.Props().MaxRow }
func (d rowDocs) where() string      { return d.table }

func tableTests() []test {
	return append(documentTests(func(t *check, s *storage.Store) documents {
		name := t.name("table")
		return rowDocs{s.Table(name), name, t.name("partition"), t.name("row")}
	}),
		test{"partitions are apart", partitionsApart},
		test{"ranges", ranges},
		test{"paging by the last key", pagingByLastKey},
		test{"queried rows are whole", queriedRows},
	)
}

func rowKeys(t *check, tab *storage.Table, partition string, r storage.RowRange) []string {
	t.Helper()
	rows, err := collect(t, tab.Query(t.ctx, partition, r))
	t.ok(err)
	var keys []string
	for _, row := range rows {
		keys = append(keys, row.Key)
	}
	return keys
}

func partitionsApart(t *check) {
	tab := t.s.Table(t.name("table"))
	// A careless join of partition and key would confuse these pairs.
	pairs := [][2]string{
		{"a", "b"}, {"a", "bb"}, {"ab", "b"}, {"a/b", "c"}, {"a", "b/c"}, {"a/", "b/c"}, {"a|b", "c"}, {"a", "b|c"}, {"a-b", "c"}, {"a", "b-c"}, {"a b", "c"}, {"a", "b c"},
		{"A", "b"}, {"a", "B"}, {"a ", "b"}, {"a", " b"}, {"a%2Fb", "c"},
	}
	for i, p := range pairs {
		_, err := tab.Put(t.ctx, p[0], p[1], fmt.Append(nil, i), storage.Condition{IfAbsent: true})
		t.ok(err)
	}
	want := map[string][]string{}
	for i, p := range pairs {
		row, err := tab.Get(t.ctx, p[0], p[1])
		t.ok(err)
		t.bytesEqual(fmt.Sprint("row ", p), row.Data, fmt.Append(nil, i))
		want[p[0]] = append(want[p[0]], p[1])
	}
	for partition, keys := range want {
		slices.Sort(keys)
		t.equal("partition "+partition, rowKeys(t, tab, partition, storage.RowRange{}), keys)
	}
	t.ok(tab.Delete(t.ctx, "ab", "b", storage.Condition{}))
	_, err := tab.Get(t.ctx, "a", "b")
	t.ok(err)
	other := t.s.Table(t.name("table"))
	t.equal("another table", rowKeys(t, other, "a", storage.RowRange{}), nil)
}

func ranges(t *check) {
	tab := t.s.Table(t.name("table"))
	all := []string{"A", "a", "a'b", "a/", "aa", "ab", "b", "ba", "c", "é", "\uffee", "😀"}
	for _, k := range all {
		_, err := tab.Put(t.ctx, "p", k, []byte(k), storage.Condition{})
		t.ok(err)
	}
	// Bounds are compared, not checked: some are no keys.
	bounds := append([]string{"", "0", "a\x00", "aaa", "b\x00", "z", "'", "' or 1=1 --", "%", "\xc3", "\xc3\xa9", "\xff", "\U0010ffff", strings.Repeat("c", 300)}, all...)
	for _, from := range bounds {
		for _, to := range bounds {
			var want []string
			for _, k := range all {
				if k >= from && (to == "" || k < to) {
					want = append(want, k)
				}
			}
			t.equal(fmt.Sprintf("from %q to %q", from, to), rowKeys(t, tab, "p", storage.RowRange{From: from, To: to}), want)
		}
	}
	for limit := range len(all) + 3 {
		want := all
		if limit > 0 {
			want = all[:min(limit, len(all))]
		}
		t.equal(fmt.Sprint("limit ", limit), rowKeys(t, tab, "p", storage.RowRange{Limit: limit}), want)
	}
	t.equal("all together", rowKeys(t, tab, "p", storage.RowRange{From: "a\x00", To: "b\x00", Limit: 3}), []string{"a'b", "a/", "aa"})
}

func pagingByLastKey(t *check) {
	tab := t.s.Table(t.name("table"))
	var want []string
	for i := range t.many(1050) {
		want = append(want, fmt.Sprintf("row-%05d", i))
	}
	crowd(16, func(i int) {
		for ; i < len(want); i += 16 {
			if _, err := tab.Put(t.ctx, "p", want[i], nil, storage.Condition{}); err != nil {
				t.Errorf("put row: %v", err)
			}
		}
	})
	t.equal("in one", rowKeys(t, tab, "p", storage.RowRange{}), want)
	t.equal("with a limit above a page", rowKeys(t, tab, "p", storage.RowRange{Limit: len(want) - 1}), want[:len(want)-1])
	size := max(len(want)/6, 7)
	var got []string
	for from := ""; ; {
		page := rowKeys(t, tab, "p", storage.RowRange{From: from, Limit: size})
		if got = append(got, page...); len(page) < size || len(got) > len(want) {
			break
		}
		from = page[len(page)-1] + "\x00"
	}
	t.equal("by pages", got, want)
}

func queriedRows(t *check) {
	tab := t.s.Table(t.name("table"))
	for i, data := range []string{"", "\x00\xff", "third"} {
		_, err := tab.Put(t.ctx, "p", fmt.Sprint(i), []byte(data), storage.Condition{})
		t.ok(err)
	}
	rows, err := collect(t, tab.Query(t.ctx, "p", storage.RowRange{}))
	t.ok(err)
	if len(rows) != 3 {
		t.Fatalf("%d rows; want 3", len(rows))
	}
	for _, r := range rows {
		one, err := tab.Get(t.ctx, "p", r.Key)
		t.ok(err)
		t.bytesEqual("data", r.Data, one.Data)
		if r.ETag != one.ETag || r.ETag == "" {
			t.Errorf("Query has ETag %q, Get %q", r.ETag, one.ETag)
		}
		_, err = tab.Put(t.ctx, "p", r.Key, nil, storage.Condition{IfMatch: r.ETag})
		t.ok(err)
	}
}

func batchTests() []test {
	return []test{
		{"many rows arrive", manyRows},
		{"rows replace rows and get new etags", rowsReplace},
		{"rows go together, those that are gone too", deleteRows},
		{"one bad row and none of the batch is written", badRows},
		{"a full batch", fullBatch},
		{"concurrent batches do not mix", batchesDoNotMix},
	}
}

func manyRows(t *check) {
	tab := t.s.Table(t.name("table"))
	t.ok(tab.PutRows(t.ctx, "p", nil))
	n := 2*storage.MaxBatchRows + 50
	rows := make([]storage.RowPut, n)
	var want []string
	for i := range rows {
		rows[i] = storage.RowPut{Key: fmt.Sprintf("%04d", i), Data: fmt.Append(nil, i)}
		want = append(want, rows[i].Key)
	}
	t.ok(tab.PutRows(t.ctx, "p", rows))
	t.equal("keys", rowKeys(t, tab, "p", storage.RowRange{}), want)
	t.equal("another partition", rowKeys(t, tab, "q", storage.RowRange{}), nil)
	t.ok(tab.PutRows(t.ctx, "p", rows)) // a repeat is harmless
	t.equal("keys", rowKeys(t, tab, "p", storage.RowRange{}), want)
}

func rowsReplace(t *check) {
	tab := t.s.Table(t.name("table"))
	old, err := tab.Put(t.ctx, "p", "b", []byte("old"), storage.Condition{})
	t.ok(err)
	t.ok(tab.PutRows(t.ctx, "p", []storage.RowPut{{Key: "a", Data: []byte("a")}, {Key: "b", Data: []byte("new")}, {Key: "c"}}))
	_, err = tab.Put(t.ctx, "p", "b", nil, storage.Condition{IfMatch: old})
	t.fails(err, storage.ErrPrecondition, "")
	row, err := tab.Get(t.ctx, "p", "b")
	t.ok(err)
	t.bytesEqual("data", row.Data, []byte("new"))
	_, err = tab.Put(t.ctx, "p", "b", nil, storage.Condition{IfMatch: row.ETag})
	t.ok(err)
	row, err = tab.Get(t.ctx, "p", "a")
	t.ok(err)
	t.ok(tab.PutRows(t.ctx, "p", []storage.RowPut{{Key: "a", Data: []byte("a")}})) // the same content
	_, err = tab.Put(t.ctx, "p", "a", nil, storage.Condition{IfMatch: row.ETag})
	t.fails(err, storage.ErrPrecondition, "")
}

func badRows(t *check) {
	name := t.name("table")
	tab := t.s.Table(name)
	good := []storage.RowPut{{Key: "a", Data: []byte(secret)}, {Key: "b", Data: []byte(secret)}}
	tooMany := make([]storage.RowPut, storage.MaxBatchRows+1)
	for i := range tooMany {
		tooMany[i].Key = fmt.Sprint("many", i)
	}
	for _, x := range []struct {
		name string
		rows []storage.RowPut
		kind error
	}{
		{"too large", append(good[:2:2], storage.RowPut{Key: "c", Data: make([]byte, t.s.Props().MaxRow+1)}), storage.ErrTooLarge},
		{"bad key", append(good[:2:2], storage.RowPut{Key: "c\x00"}), storage.ErrInvalid},
		{"empty key", append([]storage.RowPut{{}}, good...), storage.ErrInvalid},
		{"one key twice", append(good[:2:2], good[0]), storage.ErrInvalid},
		{"too many", tooMany, storage.ErrInvalid},
	} {
		t.fails(tab.PutBatch(t.ctx, "p", x.rows), x.kind, name)
		t.equal(x.name, rowKeys(t, tab, "p", storage.RowRange{}), nil)
	}
	t.fails(tab.PutBatch(t.ctx, "", good), storage.ErrInvalid, name)
	t.ok(tab.PutBatch(t.ctx, "p", nil))
	t.equal("rows", rowKeys(t, tab, "p", storage.RowRange{}), nil)

	ctx, cancel := context.WithCancelCause(t.ctx)
	cause := errors.New("had enough")
	cancel(cause)
	if err := tab.PutBatch(ctx, "p", good); !errors.Is(err, cause) {
		t.Errorf("got error %v; want one that matches context.Cause", err)
	}
	t.equal("rows", rowKeys(t, tab, "p", storage.RowRange{}), nil)
}

func fullBatch(t *check) {
	tab := t.s.Table(t.name("table"))
	rows := make([]storage.RowPut, storage.MaxBatchRows)
	size := min(storage.MaxBatchBytes/storage.MaxBatchRows, t.s.Props().MaxRow)
	var want []string
	for i := range rows {
		rows[i] = storage.RowPut{Key: fmt.Sprintf("%03d", i), Data: filled(size, byte(i))}
		want = append(want, rows[i].Key)
	}
	t.ok(tab.PutBatch(t.ctx, "p", rows))
	t.equal("rows", rowKeys(t, tab, "p", storage.RowRange{}), want)
	got, err := collect(t, tab.Query(t.ctx, "p", storage.RowRange{}))
	t.ok(err)
	for i, r := range got {
		t.bytesEqual("data", r.Data, rows[i].Data)
	}
}

func batchesDoNotMix(t *check) {
	tab := t.s.Table(t.name("table"))
	for round := range 8 {
		crowd(6, func(i int) {
			rows := make([]storage.RowPut, 10)
			for k := range rows { // each writer begins with another row
				rows[k] = storage.RowPut{Key: fmt.Sprint((k*3 + i) % 10), Data: fmt.Append(nil, round, i)}
			}
			if err := tab.PutBatch(t.ctx, "p", rows); err != nil {
				t.Errorf("put batch: %v", err)
			}
		})
		rows, err := collect(t, tab.Query(t.ctx, "p", storage.RowRange{}))
		t.ok(err)
		for _, r := range rows {
			t.bytesEqual("row "+r.Key+" beside row "+rows[0].Key, r.Data, rows[0].Data)
		}
	}
}

func deleteRows(t *check) {
	name := t.name("table")
	tab := t.s.Table(name)
	t.ok(tab.DeleteRows(t.ctx, "p", []string{"a", "b"})) // there is no table yet
	var rows []storage.RowPut
	var keys []string
	for i := range storage.MaxBatchRows + 5 {
		keys = append(keys, fmt.Sprintf("%03d", i))
		rows = append(rows, storage.RowPut{Key: keys[i], Data: []byte("data")})
	}
	t.ok(tab.PutRows(t.ctx, "p", rows))
	t.ok(tab.PutRows(t.ctx, "q", rows[:2]))
	t.ok(tab.DeleteRows(t.ctx, "p", nil))
	t.ok(tab.DeleteRows(t.ctx, "p", append([]string{"never"}, keys[1:3]...))) // a missing row doesn't prevent the others' deletion
	t.equal("rows", rowKeys(t, tab, "p", storage.RowRange{}), append(keys[:1:1], keys[3:]...))
	t.ok(tab.DeleteRows(t.ctx, "p", keys[:len(keys)-1]))
	t.ok(tab.DeleteRows(t.ctx, "p", keys[:2])) // a repeat is harmless
	t.equal("rows", rowKeys(t, tab, "p", storage.RowRange{}), keys[len(keys)-1:])
	t.equal("rows of the other partition", rowKeys(t, tab, "q", storage.RowRange{}), keys[:2])
	t.fails(tab.DeleteBatch(t.ctx, "q", append(keys[:1:1], "\x00")), storage.ErrInvalid, name)
	t.fails(tab.DeleteBatch(t.ctx, "q", []string{keys[0], keys[0]}), storage.ErrInvalid, name)
	t.fails(tab.DeleteBatch(t.ctx, "q", keys), storage.ErrInvalid, name)
	t.equal("rows after refusals", rowKeys(t, tab, "q", storage.RowRange{}), keys[:2])
}
