package sqlite

import (
	"context"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/storage"
)

// table implements storage.Table, storage.BatchTable and storage.BatchDeleter.
type table struct {
	s       *store
	name    string
	invalid error
}

var (
	_ storage.BatchTable   = (*table)(nil)
	_ storage.BatchDeleter = (*table)(nil)
)

func tooLarge(n, most int) error {
	return fmt.Errorf("%w: %d bytes; at most %d", storage.ErrTooLarge, n, most)
}

func (t *table) resource(partition, key string) string {
	return "row " + t.name + "/" + storage.Quote(partition) + "/" + storage.Quote(key)
}

func (t *table) check(partition, key string) error {
	if t.invalid != nil {
		return t.invalid
	}
	if err := storage.CheckKey(partition); err != nil {
		return err
	}
	return storage.CheckKey(key)
}

func (t *table) Get(ctx context.Context, partition, key string) (storage.Row, error) {
	t.s.count("get", "table", t.name)
	err := t.check(partition, key)
	var row storage.Row
	if err == nil {
		err = t.s.readers.do(ctx, func(c *conn) (err error) {
			row, err = t.read(c, partition, key)
			return err
		})
	}
	if err != nil {
		return storage.Row{}, fail("get", t.resource(partition, key), err)
	}
	return row, nil
}

func (t *table) read(c *conn, partition, key string) (storage.Row, error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil {
		return storage.Row{}, err
	}
	s := c.stmt(`SELECT etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).int(1, id).text(2, partition).text(3, key)
	row, err := s.step()
	if err != nil {
		return storage.Row{}, err
	}
	if !row {
		return storage.Row{}, storage.ErrNotFound
	}
	defer s.reset()
	return storage.Row{Key: key, ETag: formatETag(s.colInt(0)), Data: s.colBytes(1)}, nil
}

func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	t.s.count("put", "table", t.name)
	err := t.check(partition, key)
	if err == nil && len(data) > maxRow {
		err = tooLarge(len(data), maxRow)
	}
	if err == nil {
		err = cond.Check()
	}
	var etag storage.ETag
	if err == nil {
		err = t.s.write(&op{ctx: ctx, size: len(data) + len(key) + 100, run: func(w *writer) (err error) {
			etag, err = w.putRow(t.name, partition, key, data, cond)
			return err
		}})
	}
	if err != nil {
		return "", fail("put", t.resource(partition, key), err)
	}
	return etag, nil
}

func (w *writer) putRow(name, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	return w.put(kindTable, name, cond, puts{
		always: `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT DO UPDATE SET etag = excluded.etag, data = excluded.data`,
		absent: `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
		match:  `UPDATE rows SET etag = ?4, data = ?5 WHERE tbl = ?1 AND partition = ?2 AND key = ?3 AND etag = ?6`,
	}, func(s *stmt, id, etag int64) {
		s.int(1, id).text(2, partition).text(3, key).int(4, etag).blob(5, data)
	})
}

// PutBatch implements storage.BatchTable.
func (t *table) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	t.s.count("put batch", "table", t.name)
	err := t.invalid
	if err == nil {
		err = t.s.Props().CheckBatch(partition, rows)
	}
	if err == nil && len(rows) > 0 {
		err = t.s.write(&op{ctx: ctx, size: rowsSize(rows), run: func(w *writer) error { return w.putRows(t.name, partition, rows) }})
	}
	if err != nil {
		return fail("put batch", "partition "+t.name+"/"+storage.Quote(partition), err)
	}
	return nil
}

func rowsSize(rows []storage.RowPut) (size int) {
	for _, r := range rows {
		size += len(r.Data) + len(r.Key) + 100
	}
	return size
}

func (w *writer) putRows(name, partition string, rows []storage.RowPut) error {
	for _, r := range rows {
		if _, err := w.putRow(name, partition, r.Key, r.Data, storage.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	t.s.count("delete", "table", t.name)
	err := t.check(partition, key)
	if err == nil {
		err = cond.CheckDelete()
	}
	if err == nil {
		err = t.s.write(&op{ctx: ctx, size: 100, run: func(w *writer) error {
			return w.remove(kindTable, t.name, cond,
				`SELECT etag FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`,
				`DELETE FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`,
				func(s *stmt, id int64) { s.int(1, id).text(2, partition).text(3, key) })
		}})
	}
	if err != nil {
		return fail("delete", t.resource(partition, key), err)
	}
	return nil
}

// DeleteBatch implements storage.BatchDeleter, all or none.
func (t *table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	t.s.count("delete batch", "table", t.name)
	err := t.invalid
	if err == nil {
		err = storage.CheckDeleteBatch(partition, keys)
	}
	if err == nil && len(keys) > 0 {
		err = t.s.write(&op{ctx: ctx, size: 100 * len(keys), run: func(w *writer) error {
			id, err := w.find(kindTable, t.name)
			if err != nil || id == 0 {
				return err
			}
			for _, key := range keys {
				err := w.c.stmt(`DELETE FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).int(1, id).text(2, partition).text(3, key).run()
				if err != nil {
					return err
				}
			}
			return nil
		}})
	}
	if err != nil {
		return fail("delete batch", "partition "+t.name+"/"+storage.Quote(partition), err)
	}
	return nil
}

func (t *table) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	resource := "partition " + t.name + "/" + storage.Quote(partition)
	invalid := t.invalid
	if invalid == nil {
		invalid = storage.CheckKey(partition)
	}
	rows := pages(ctx, t.s.readers, "query", resource, invalid, r.From,
		func(c *conn, from string) ([]storage.Row, string, bool, error) {
			t.s.count("query", "table", t.name)
			return t.page(c, partition, from, r.To, r.Limit)
		})
	if r.Limit <= 0 {
		return rows
	}
	return func(yield func(storage.Row, error) bool) {
		n := 0
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
	}
}

func (t *table) page(c *conn, partition, from, to string, limit int) (page []storage.Row, next string, more bool, err error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil || id == 0 {
		return nil, "", false, err
	}
	n := pageItems
	if limit > 0 {
		n = min(n, limit)
	}
	s := upTo(c.stmt(`SELECT key, etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key >= ?3 AND key < ?4 ORDER BY key LIMIT ?5`).
		int(1, id).text(2, partition).text(3, from), 4, to).int(5, int64(n))
	bytes := 0
	for bytes < pageBytes {
		row, err := s.step()
		if err != nil {
			return nil, "", false, err
		}
		if !row {
			return page, next, len(page) == n, nil
		}
		r := storage.Row{Key: s.colText(0), ETag: formatETag(s.colInt(1)), Data: s.colBytes(2)}
		page = append(page, r)
		next = r.Key + "\x00"
		bytes += len(r.Data)
	}
	s.reset()
	return page, next, true, nil
}
