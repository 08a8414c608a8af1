package storage

import (
	"context"
	"iter"
	"slices"

	"github.com/millrace-go/millrace/storage/driver"
)

// A Table keeps rows; the rows of one partition are ordered by key (see [CheckKey] for both).
type Table struct {
	place
	d     driver.Table
	limit int // bytes of a row's data
}

func checkRowKey(partition, key string) error {
	if err := CheckKey(partition); err != nil {
		return err
	}
	return CheckKey(key)
}

// Get reads a row. Without a row it returns [ErrNotFound].
func (t *Table) Get(ctx context.Context, partition, key string) (Row, error) {
	err := t.ready(ctx, checkRowKey(partition, key))
	var row Row
	if err == nil {
		row, err = t.d.Get(ctx, partition, key)
	}
	if err != nil {
		return Row{}, t.failAt("get", "row", err, partition, key)
	}
	return row, nil
}

// Put writes a row, guarded as Blobs.Put is.
func (t *Table) Put(ctx context.Context, partition, key string, data []byte, cond Condition) (ETag, error) {
	err := t.ready(ctx, checkPut(checkRowKey(partition, key), len(data), t.limit, cond))
	var etag ETag
	if err == nil {
		etag, err = t.d.Put(ctx, partition, key, data, cond)
	}
	if err != nil {
		return "", t.failAt("put", "row", err, partition, key)
	}
	return etag, nil
}

// Delete removes a row, guarded as Blobs.Delete is.
func (t *Table) Delete(ctx context.Context, partition, key string, cond Condition) error {
	err := t.ready(ctx, checkDelete(checkRowKey(partition, key), cond))
	if err == nil {
		err = t.d.Delete(ctx, partition, key, cond)
	}
	if err != nil {
		return t.failAt("delete", "row", err, partition, key)
	}
	return nil
}

// Query yields the rows of a range, as Blobs.List does. From and To are compared, not checked.
func (t *Table) Query(ctx context.Context, partition string, r RowRange) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := t.ready(ctx, CheckKey(partition)); err != nil {
			yield(Row{}, t.failAt("query", "partition", err, partition))
			return
		}
		for row, err := range t.d.Query(ctx, partition, r) {
			if err != nil {
				yield(Row{}, t.failAt("query", "partition", err, partition))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// PutBatch writes rows of one partition unconditionally, all or none: up to [MaxBatchRows] with up to [MaxBatchBytes]
// of data, each key once. Anything else is [ErrInvalid].
func (t *Table) PutBatch(ctx context.Context, partition string, rows []RowPut) error {
	err := t.ready(ctx, checkBatch(partition, rows, t.limit))
	if err == nil && len(rows) > 0 {
		err = t.d.PutBatch(ctx, partition, rows)
	}
	if err != nil {
		return t.failAt("put batch", "partition", err, partition)
	}
	return nil
}

// DeleteBatch deletes up to [MaxBatchRows] rows of one partition unconditionally, each key once; anything else is
// [ErrInvalid]. A row that isn't there is no error. After an error an unknown part is deleted.
func (t *Table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	rows := make([]RowPut, len(keys))
	for i, key := range keys {
		rows[i].Key = key
	}
	err := t.ready(ctx, checkBatch(partition, rows, t.limit))
	if err == nil && len(keys) > 0 {
		err = t.d.DeleteBatch(ctx, partition, keys)
	}
	if err != nil {
		return t.failAt("delete batch", "partition", err, partition)
	}
	return nil
}

// PutRows writes any number of rows of one partition, in batches. It stops at the first failure; repeating it is
// harmless.
func (t *Table) PutRows(ctx context.Context, partition string, rows []RowPut) error {
	for len(rows) > 0 {
		n, bytes := 1, len(rows[0].Data)
		for n < min(len(rows), MaxBatchRows) && bytes+len(rows[n].Data) <= MaxBatchBytes {
			bytes += len(rows[n].Data)
			n++
		}
		if err := t.PutBatch(ctx, partition, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// DeleteRows deletes any number of rows of one partition, in batches. Rows that aren't there are no error. It stops
// at the first failure; repeating it is harmless.
func (t *Table) DeleteRows(ctx context.Context, partition string, keys []string) error {
	for some := range slices.Chunk(keys, MaxBatchRows) {
		if err := t.DeleteBatch(ctx, partition, some); err != nil {
			return err
		}
	}
	return nil
}
