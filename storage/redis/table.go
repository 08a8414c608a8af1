package redis

import (
	"context"
	"iter"
	"strconv"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// table implements driver.Table. The state of a row is its ETag (16 bytes) and its data.
type table struct {
	s    *store
	name string
}

const rowHead = 16

// Get implements driver.Table.
func (t *table) Get(ctx context.Context, partition, key string) (driver.Row, error) {
	t.s.tally.count("get", "table", t.name)
	r, err := t.s.e.Read(ctx, "HGET", t.s.e.Key(":T:"+t.name+"\x00"+partition), key)
	if err != nil {
		return driver.Row{}, err
	}
	state := r.Text()
	if len(state) < rowHead {
		return driver.Row{}, driver.ErrNotFound
	}
	return row(key, state), nil
}

func row(key, state string) driver.Row {
	return driver.Row{Key: key, Data: []byte(state[rowHead:]), ETag: engine.FormatETag(state[:rowHead])}
}

// Put implements driver.Table.
func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond driver.Condition) (driver.ETag, error) {
	t.s.tally.count("put", "table", t.name)
	want, err := wanted(cond)
	if err != nil {
		return "", err
	}
	u, id := new(engine.Unit), t.s.e.NewID()
	u.WriteRow(t.name, partition, key, id, id+string(data), want)
	if err := t.s.one(ctx, u); err != nil {
		return "", err
	}
	return engine.FormatETag(id), nil
}

// Delete implements driver.Table.
func (t *table) Delete(ctx context.Context, partition, key string, cond driver.Condition) error {
	t.s.tally.count("delete", "table", t.name)
	u := new(engine.Unit)
	u.RemoveRow(t.name, partition, key, wantedOfDeletion(cond))
	return t.s.one(ctx, u)
}

// Query implements driver.Table.
func (t *table) Query(ctx context.Context, partition string, r driver.RowRange) iter.Seq2[driver.Row, error] {
	ask := func(low string) (client.List, error) {
		t.s.tally.count("query", "table", t.name)
		return t.s.e.Ask(ctx, engine.Rows, t.name+"\x00"+partition, low, high(r.To), strconv.Itoa(page))
	}
	all := pages(ctx, "["+r.From, ask, 2, func(l client.List) (driver.Row, string, bool) {
		key, state := l.At(0).Text(), l.At(1).Text()
		if len(state) < rowHead {
			return driver.Row{}, key, false
		}
		return row(key, state), key, true
	})
	if r.Limit == 0 {
		return all
	}
	return func(yield func(driver.Row, error) bool) {
		n := 0
		for x, err := range all {
			if !yield(x, err) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
	}
}

// PutBatch implements driver.Table.
func (t *table) PutBatch(ctx context.Context, partition string, rows []driver.RowPut) error {
	t.s.tally.count("put batch", "table", t.name)
	u := new(engine.Unit)
	for _, r := range rows {
		id := t.s.e.NewID()
		u.WriteRow(t.name, partition, r.Key, id, id+string(r.Data), engine.Always)
	}
	return t.s.e.Do(ctx, u)
}

// DeleteBatch implements driver.Table.
func (t *table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	t.s.tally.count("delete batch", "table", t.name)
	u := new(engine.Unit)
	for _, k := range keys {
		u.RemoveRow(t.name, partition, k, engine.Anyway)
	}
	return t.s.e.Do(ctx, u)
}
